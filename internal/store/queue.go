package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// DueTimers returns at most limit timers of all namespaces that are due at the time now or earlier, the
// earliest first. The second result is the due time of the first timer that was not returned, or 0 if
// there are no more.
func (s *Store) DueTimers(ctx context.Context, now int64, limit int) ([]machine.Timer, int64, error) {
	var out []machine.Timer
	next := int64(math.MaxInt64)
	for _, ns := range s.readTimestamps.namespaces() {
		later, err := s.scanQueue(ctx, layout.QueueID{Kind: layout.TimerQueue, Ns: ns}, now, limit, func(key, value []byte) error {
			t, err := layout.ReadTimer(key)
			if err == nil {
				t.Turn, err = codec.DecodeNumber(value)
			}
			out = append(out, t)
			return err
		})
		if err != nil {
			return nil, 0, fmt.Errorf("due timers: %w", err)
		}
		next = min(next, later)
	}
	slices.SortStableFunc(out, func(a, b machine.Timer) int { return cmp.Compare(a.Due, b.Due) })
	if len(out) > limit {
		next = min(next, out[limit].Due)
		out = out[:limit]
	}
	if next == math.MaxInt64 {
		next = 0
	}
	return out, next, nil
}

// Outbox returns outbox rows (outgoing work) of a kind, of all namespaces, at most limit. The rows are
// due at the time now or earlier, and the earliest comes first.
func (s *Store) Outbox(ctx context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error) {
	var out []machine.OutboxRow
	for _, ns := range s.readTimestamps.namespaces() {
		rows, err := s.OutboxOf(ctx, ns, kind, now, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	slices.SortStableFunc(out, func(a, b machine.OutboxRow) int { return cmp.Compare(a.Due, b.Due) })
	return out[:min(len(out), limit)], nil
}

// OutboxOf returns the same as [Store.Outbox], but only rows of one namespace.
func (s *Store) OutboxOf(ctx context.Context, ns uint32, kind machine.OutboxKind, now int64, limit int) (rows []machine.OutboxRow, err error) {
	_, err = s.scanQueue(ctx, layout.QueueID{Kind: byte(kind), Ns: ns}, now, limit, func(key, _ []byte) error {
		row, err := layout.ReadOutbox(key)
		rows = append(rows, row)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return rows, nil
}

// scanQueue calls visit for at most limit rows of a queue that are due at the time now or earlier. It
// begins at the queue's watermark, before which no row is due. It returns the due time of the first row
// that it did not visit, or MaxInt64 if there are no more rows.
//
// Afterwards scanQueue raises the watermark to the first remaining row, but not above now, because rows
// that are added later would often be before it. It also does not raise it above the latest row that
// the queue ever had.
func (s *Store) scanQueue(ctx context.Context, q layout.QueueID, now int64, limit int, visit func(key, value []byte) error) (int64, error) {
	k, low := s.watermarks.begin(q)
	first, next, met := int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64)
	defer func() { s.watermarks.finish(k, first, met) }()
	p := layout.QueuePrefix(q)
	err := s.view(func(txn *layout.Txn) error {
		iterator := txn.Scan(kv.Range{Prefix: p})
		defer iterator.Close()
		n := 0
		for iterator.Seek(layout.Instant(slices.Clone(p), low)); layout.AtPrefix(iterator, p); iterator.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			key := iterator.Key()
			if len(key) < len(p)+8 {
				return fmt.Errorf("malformed queue key %x", key)
			}
			next = layout.DueAt(key[len(p):])
			met = next
			if next > now || n == limit {
				return nil
			}
			err := layout.ValueOf(iterator, func(value []byte) error { return visit(key, value) })
			if err != nil {
				return err
			}
			if n == 0 {
				first = next
			}
			n, next = n+1, math.MaxInt64
		}
		return nil
	})
	if err != nil {
		first = math.MinInt64
		return 0, err
	}
	if first == math.MinInt64 {
		first = min(now, next)
	}
	return next, nil
}

// ReadyRuns returns at most limit runs that have a turn to execute, in the order of their ids,
// beginning after the run id after. "" means the start.
func (s *Store) ReadyRuns(ctx context.Context, ns uint32, after string, limit int) ([]string, error) {
	var out []string
	p := layout.Prefix(nil, layout.KindReady, ns)
	err := s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
		defer it.Close()
		start := p
		if after != "" {
			start = layout.AppendName(slices.Clone(p), after)
		}
		for it.Seek(start); layout.AtPrefix(it, p) && len(out) < limit && ctx.Err() == nil; it.Next() {
			run, rest, ok := layout.CutName(it.Key()[len(p):])
			if !ok || len(rest) != 0 {
				return fmt.Errorf("malformed ready key %x", it.Key())
			}
			if run != after {
				out = append(out, run)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("ready runs: %w", err)
	}
	return out, nil
}
