package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// PutSubscription stores a subscription and waits until it is synced. before is the subscription that
// the caller has read, or nil if none may exist. If the stored subscription differs from before, the
// error is [machine.ErrSubscriptionChanged].
func (s *Store) PutSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription) error {
	return s.writeSubscription(ctx, sub, before, nil)
}

// RecordDeadLetter stores a dead letter together with the new state of its subscription, and waits
// until both are synced. If the stored subscription differs from before, the error is
// [machine.ErrSubscriptionChanged].
func (s *Store) RecordDeadLetter(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error {
	return s.writeSubscription(ctx, sub, before, &letter)
}

// writeSubscription stores a new or changed subscription, and with it a dead letter unless letter is nil. before
// is the subscription that the caller has read; if the stored one differs, the error is
// machine.ErrSubscriptionChanged.
func (s *Store) writeSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error {
	key, box := layout.SubscriptionKey(layout.KindSubscription, sub.SubscriptionKey), layout.SubscriptionKey(layout.KindDeadLetter, sub.SubscriptionKey)
	is := expect{key: key, err: machine.ErrSubscriptionChanged}
	if before != nil {
		is.value = codec.EncodeSubscription(before)
	}
	w := &Writes{ns: sub.Namespace, entry: -1, expects: []expect{is}, ops: []layout.Op{{Key: key, Value: codec.EncodeSubscription(&sub)}}}
	if before == nil {
		// The dead letters of an earlier subscription with the same key may still exist, because they
		// are removed in steps. Until they are removed, the commit fails. Otherwise they would become
		// dead letters of the new subscription.
		w.expects = append(w.expects, expectNotDropped(box, machine.ErrSubscriptionChanged))
		if sub.Run != "" {
			kept, err := s.keptOf(sub.Namespace, sub.Run)
			if err != nil {
				return fmt.Errorf("subscription %q: %w", sub.ID, err)
			}
			w.expects = append(w.expects, expect{key: layout.DeletedKey(sub.Namespace, sub.Run), value: kept, err: machine.ErrSubscriptionChanged})
		}
	}
	if letter == nil {
		return s.write(ctx, w)
	}
	old, err := s.deadLetterTrimmer().RemoveOldest(box, maxDeadLetters, maxDeadLetterBytes)
	if err != nil {
		return fmt.Errorf("dead letters of %q: %w", sub.ID, err)
	}
	w.ops = append(append(w.ops, old...), layout.Op{Key: layout.DeadLetterKey(sub.SubscriptionKey, letter.N), Value: codec.EncodeDeadLetter(letter)})
	if err := s.write(ctx, w); err != nil || len(old) == 0 {
		return err
	}
	s.opts.Logger.Warn("oldest dead letters removed, limit reached", "subscription_id", sub.ID, "run_id", sub.Run, "count", len(old))
	return nil
}

// keptOf returns the value that the row of the run's deletion must still have when a subscription to the run is stored,
// so that the commit fails if the run is deleted in the meantime. The value is nil, or the row of an earlier deletion
// if the run was deleted and then imported.
func (s *Store) keptOf(ns uint32, run string) (kept []byte, err error) {
	err = s.view(func(txn *layout.Txn) error {
		if there, err := layout.RunExists(txn, ns, run); err != nil || !there {
			return err
		}
		kept, err = layout.Get(txn, layout.DeletedKey(ns, run))
		return err
	})
	return kept, err
}

// Subscription returns a subscription. It returns nil if the subscription does not exist.
func (s *Store) Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error) {
	var out *machine.Subscription
	err := s.view(func(txn *layout.Txn) error {
		value, err := layout.Get(txn, layout.SubscriptionKey(layout.KindSubscription, key))
		if err != nil || value == nil {
			return err
		}
		sub, err := codec.DecodeSubscription(value)
		sub.SubscriptionKey, out = key, &sub
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscription %q: %w", key.ID, err)
	}
	return out, ctx.Err()
}

// Subscriptions lists the subscriptions of a kind for one run, in the order of run and id. If run is
// "", it lists those of all runs.
func (s *Store) Subscriptions(ctx context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error) {
	p := append(layout.Prefix(nil, layout.KindSubscription, ns), byte(kind))
	if run != "" {
		p = layout.AppendName(p, run)
	}
	var out []machine.Subscription
	err := s.rows(ctx, p, func(key, value []byte) error {
		sub, err := codec.DecodeSubscription(value)
		if err == nil {
			sub.SubscriptionKey, _, err = layout.ReadSubscriptionKey(key)
		}
		out = append(out, sub)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscriptions: %w", err)
	}
	return out, nil
}

// DropSubscription removes a subscription, waits until this is synced, and then removes its dead
// letters. If the subscription is missing, this is no error. After the first commit the subscription no
// longer exists, even if a later commit fails.
func (s *Store) DropSubscription(ctx context.Context, key machine.SubscriptionKey) error {
	w := &Writes{ns: key.Namespace, entry: -1, reclaimsSpace: true, ops: []layout.Op{{Key: layout.SubscriptionKey(layout.KindSubscription, key), Delete: true}}}
	w.addDrop(layout.SubscriptionKey(layout.KindDeadLetter, key))
	if err := s.write(ctx, w); err != nil {
		return fmt.Errorf("drop subscription %q: %w", key.ID, err)
	}
	return nil
}

// ListDeadLetters returns at most limit dead letters of a subscription whose number is greater than
// after.
func (s *Store) ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	var out []machine.DeadLetter
	p := layout.SubscriptionKey(layout.KindDeadLetter, key)
	err := s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Seek(layout.Number(slices.Clone(p), after+1)); after < math.MaxUint64 && layout.AtPrefix(it, p) && len(out) < limit; it.Next() {
			n, err := layout.LastNumber(it.Key(), p)
			if err != nil {
				return err
			}
			value, err := layout.CopyOf(it)
			if err != nil {
				return err
			}
			letter, err := codec.DecodeDeadLetter(value)
			if err != nil {
				return err
			}
			letter.N = n
			out = append(out, letter)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters of %q: %w", key.ID, err)
	}
	return out, nil
}

// DiscardDeadLetter removes a dead letter, for example because it was delivered later, and waits until
// the removal is synced.
func (s *Store) DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error {
	return s.write(ctx, &Writes{ns: key.Namespace, entry: -1, reclaimsSpace: true, ops: []layout.Op{{Key: layout.DeadLetterKey(key, n), Delete: true}}})
}

// TrimDeadLetters removes dead letters of a namespace that are too old or too many, see
// [letterTrimmer.Trim].
func (s *Store) TrimDeadLetters(ctx context.Context, ns uint32, before int64, most int) (int, error) {
	return s.deadLetterTrimmer().Trim(ctx, ns, before, most)
}

func (s *Store) deadLetterTrimmer() *letterTrimmer {
	return &letterTrimmer{View: s.view, Write: func(ctx context.Context, ns uint32, ops []layout.Op) error {
		return s.write(ctx, &Writes{ns: ns, entry: -1, ops: ops, reclaimsSpace: true})
	}}
}

// Schedules returns the store of the progress of schedules.
func (s *Store) Schedules() *ScheduleStore {
	return &ScheduleStore{View: s.view, Write: func(ctx context.Context, ns uint32, ops []layout.Op) error {
		return s.write(ctx, &Writes{ns: ns, entry: -1, ops: ops})
	}}
}

// rows calls visit for the rows whose keys begin with p. It passes copies of the key and the value.
func (s *Store) rows(ctx context.Context, p []byte, visit func(key, value []byte) error) error {
	return layout.EachRow(ctx, s.view, p, visit)
}

// trimPage is the number of dead letters that one commit removes.
const trimPage = 1024

// letterTrimmer removes dead letters of one store. It is safe for concurrent use.
type letterTrimmer struct {
	// View reads the last synced commit. Write stores rows of a namespace and waits until they are
	// synced.
	View  func(read func(txn *layout.Txn) error) error
	Write func(ctx context.Context, ns uint32, ops []layout.Op) error
}

// letterBox describes the dead letters of one subscription: the prefix of their keys and their number.
type letterBox struct {
	prefix []byte
	n      int
	// old is the number of letters that Trim removes from the subscription, beginning with the oldest: those that are
	// too old, and those above the limit.
	old int
}

// Trim removes dead letters of one namespace. First it removes the letters that became dead before the
// time before, in Unix nanoseconds. If more than most letters remain, it removes the oldest letters of
// the subscriptions that have the most letters, until most remain. If most is 0, their number is not
// limited.
func (t *letterTrimmer) Trim(ctx context.Context, ns uint32, before int64, most int) (removed int, err error) {
	var boxes []*letterBox
	err = t.View(func(txn *layout.Txn) (err error) {
		boxes, err = boxesOf(txn, ns, before)
		return errors.Join(err, ctx.Err())
	})
	if err != nil {
		return 0, fmt.Errorf("dead letters: %w", err)
	}
	levelBoxes(boxes, most)
	for _, b := range boxes {
		n, err := t.remove(ctx, ns, b.prefix, b.old)
		if removed += n; err != nil {
			return removed, fmt.Errorf("dead letters: %w", err)
		}
	}
	return removed, nil
}

// boxesOf returns the number of dead letters of each subscription, and how many of the oldest ones became dead before
// the time before. For each subscription it reads the times only up to the first letter that is not old.
func boxesOf(txn *layout.Txn, ns uint32, before int64) (boxes []*letterBox, err error) {
	p := layout.Prefix(nil, layout.KindDeadLetter, ns)
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	var at *letterBox
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
		key := it.Key()
		if at == nil || !bytes.HasPrefix(key, at.prefix) {
			_, rest, err := layout.ReadSubscriptionKey(key)
			if err != nil {
				return nil, err
			}
			at = &letterBox{prefix: bytes.Clone(key[:len(key)-len(rest)])}
			boxes = append(boxes, at)
		}
		if at.old == at.n && before > 0 {
			is, err := givenUpBefore(it, before)
			if err != nil {
				return nil, err
			}
			if is {
				at.old++
			}
		}
		at.n++
	}
	return boxes, nil
}

func givenUpBefore(item *kv.Iterator, before int64) (is bool, err error) {
	err = layout.ValueOf(item, func(v []byte) error {
		letter, err := codec.DecodeDeadLetter(v)
		is = letter.At < before
		return err
	})
	return is, err
}

// levelBoxes marks the oldest dead letters of the subscriptions with the most dead letters for removal.
// Afterwards at most `most` letters of all subscriptions are not marked.
func levelBoxes(boxes []*letterBox, most int) {
	left, tallest := 0, 0
	for _, b := range boxes {
		left, tallest = left+b.n-b.old, max(tallest, b.n-b.old)
	}
	if most == 0 || left <= most {
		return
	}
	under := func(height int) (n int) {
		for _, b := range boxes {
			n += min(b.n-b.old, height)
		}
		return n
	}
	height := sort.Search(tallest, func(h int) bool { return under(h) > most }) - 1
	missing := most - under(height)
	for _, b := range boxes {
		if over := b.n - b.old - height; over > 0 {
			one := min(missing, 1)
			b.old, missing = b.old+over-one, missing-one
		}
	}
}

// remove removes the n oldest dead letters whose keys begin with prefix.
func (t *letterTrimmer) remove(ctx context.Context, ns uint32, prefix []byte, n int) (removed int, err error) {
	for removed < n {
		ops, err := t.first(ctx, prefix, min(n-removed, trimPage))
		if err != nil || len(ops) == 0 {
			return removed, err
		}
		if err := t.Write(ctx, ns, ops); err != nil {
			return removed, err
		}
		removed += len(ops)
	}
	return removed, nil
}

func (t *letterTrimmer) first(ctx context.Context, prefix []byte, n int) (ops []layout.Op, err error) {
	err = t.View(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: prefix, KeysOnly: true})
		defer it.Close()
		for it.Rewind(); layout.AtPrefix(it, prefix) && len(ops) < n; it.Next() {
			ops = append(ops, layout.Op{Key: it.KeyCopy(), Delete: true})
		}
		return ctx.Err()
	})
	return ops, err
}

// These constants limit the dead letters of one subscription, by number and by bytes. If a new dead
// letter exceeds a limit, the oldest ones are removed.
const (
	maxDeadLetters     = 10_000
	maxDeadLetterBytes = 256 << 20
)

// oldestRows and oldestBytes limit the dead letters that one call of RemoveOldest removes, by number and by the
// size of their keys.
const (
	oldestRows  = 4096
	oldestBytes = 256 << 10
)

// RemoveOldest returns ops that remove the oldest dead letters whose keys begin with p. Afterwards the number of
// letters is at most mostRows even with one new letter, and the size of the remaining letters is at most mostBytes. One
// call removes a limited number of letters. If more must be removed, the next new letter removes them.
func (t *letterTrimmer) RemoveOldest(p []byte, mostRows int, mostBytes int64) (old []layout.Op, err error) {
	err = t.View(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p, Reverse: true, KeysOnly: true})
		defer it.Close()
		rows, bytes := 1, int64(0)
		// The scan runs backwards, from the newest letter to the oldest.
		for it.Seek(append(slices.Clone(p), 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)); layout.AtPrefix(it, p); it.Next() {
			rows, bytes = rows+1, bytes+it.Size()
			if rows > mostRows || bytes > mostBytes {
				old = append(old, layout.Op{Key: it.KeyCopy(), Delete: true})
			}
		}
		return nil
	})
	most := min(oldestRows, oldestBytes/(len(p)+8))
	return old[max(0, len(old)-most):], err
}
