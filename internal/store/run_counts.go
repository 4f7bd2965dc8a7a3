package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// viewFunc calls read with a view of the last synced commit of the store.
type viewFunc func(read func(txn *layout.Txn) error) error

// runCounts counts the runs of each namespace by status. The first request for a namespace counts its rows of
// the status index. After that, every synced commit group adds its changes to the counts, so that later
// requests read no rows. The counts are only in memory. The zero value is ready for use.
type runCounts struct {
	mu         sync.Mutex
	namespaces map[uint32]*namespaceCount
}

// namespaceCount is the count of one namespace.
type namespaceCount struct {
	// counted is closed when the rows were counted, so that runs or err is set.
	counted chan struct{}
	runs    map[string]int
	// ts is the number of the commit group at which the rows were counted. runs includes all changes up
	// to this group.
	ts  uint64
	err error
	// missed are the changes of commit groups that were synced while the rows were being counted.
	missed []statusChange
}

// statusChange describes how one commit group changes the number of runs that have one status.
type statusChange struct {
	ns     uint32
	status string
	delta  int
	// ts is the number of the commit group. A count at this group or a later one already includes the
	// change.
	ts uint64
}

// statusIndex is the name of the index that is counted.
const statusIndex = "status"

// Synced adds the changes of a synced commit group to the counts. It must be called after readers can
// see the group.
func (c *runCounts) Synced(ts uint64, ops iter.Seq[*layout.Op]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.namespaces) == 0 {
		return
	}
	for op := range ops {
		if change, ok := statusChangeOf(op); ok {
			change.ts = ts
			c.apply(change)
		}
	}
}

func (c *runCounts) apply(change statusChange) {
	t := c.namespaces[change.ns]
	switch {
	case t == nil:
		// The rows of this namespace are not being counted and were not counted before, so there is no count to update.
	case t.runs == nil:
		t.missed = append(t.missed, change)
	case change.ts <= t.ts:
		// The count already includes the change.
	default:
		t.runs[change.status] += change.delta
	}
}

// statusChangeOf returns the change that an op makes to the status index. It returns false for an op on
// any other key.
func statusChangeOf(op *layout.Op) (change statusChange, ok bool) {
	if change.status, ok = statusOf(op.Key); !ok {
		return change, false
	}
	change.ns, change.delta = binary.BigEndian.Uint32(op.Key[1:]), 1
	if op.Delete {
		change.delta = -1
	}
	return change, ok
}

// statusOf returns the status in a key of the status index. It returns false for any other key.
func statusOf(key []byte) (status string, ok bool) {
	if key[0] != layout.KindIndex || len(key) < indexNameAt {
		return "", false
	}
	rest, ok := bytes.CutPrefix(key[indexNameAt:], statusName)
	if !ok {
		return "", false
	}
	status, _, ok = layout.CutName(rest)
	return status, ok
}

// indexNameAt is the position in a key at which the name of the index begins.
const indexNameAt = 1 + 4

var statusName = layout.AppendName(nil, statusIndex)

// Count returns how many runs of a namespace have one of the statuses, at the last synced commit or a
// later one. The first caller counts the rows. Other callers wait until this is done or ctx ends.
func (c *runCounts) Count(ctx context.Context, view viewFunc, ns uint32, statuses []string) (int, error) {
	for {
		t, mine := c.countOf(ns)
		if mine {
			c.fill(ctx, view, ns, t)
		}
		select {
		case <-t.counted:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if t.err == nil {
			return c.sum(t, statuses), nil
		}
		if mine {
			return 0, t.err
		}
		// The caller that was counting has failed, perhaps because its own context ended. So this
		// caller counts the rows itself.
	}
}

func (c *runCounts) sum(t *namespaceCount, statuses []string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, status := range statuses {
		n += t.runs[status]
	}
	return n
}

// countOf returns the count of a namespace. If mine is true, the count is new, and the caller must
// count the rows with fill.
func (c *runCounts) countOf(ns uint32) (t *namespaceCount, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t = c.namespaces[ns]; t != nil {
		return t, false
	}
	t = &namespaceCount{counted: make(chan struct{})}
	if c.namespaces == nil {
		c.namespaces = make(map[uint32]*namespaceCount)
	}
	c.namespaces[ns] = t
	return t, true
}

// fill counts the rows of the status index of a namespace. Synced already adds the changes of this
// namespace to t.missed, so t.missed includes every commit group that fill does not see.
func (c *runCounts) fill(ctx context.Context, view viewFunc, ns uint32, t *namespaceCount) {
	runs, ts := make(map[string]int), uint64(0)
	err := view(func(txn *layout.Txn) error {
		ts = txn.Group()
		return countStatuses(ctx, txn, ns, runs)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(t.counted)
	if t.err = err; err != nil {
		delete(c.namespaces, ns)
		return
	}
	t.runs, t.ts = runs, ts
	for _, change := range t.missed {
		c.apply(change)
	}
	t.missed = nil
}

// rowsBetweenChecks is the number of rows that are read between two checks of the context.
// countedAtOnce is the maximum number of rows that a storage engine counts in one call.
const (
	rowsBetweenChecks = 4096
	countedAtOnce     = 1 << 16
)

// runStatuses lists the names of all statuses that a run can have.
var runStatuses = func() (all []string) {
	for s := machine.Running; s <= machine.Cancelled; s++ {
		all = append(all, s.String())
	}
	return all
}()

// countStatuses adds the number of runs in each status to runs, by the names of the statuses.
func countStatuses(ctx context.Context, txn *layout.Txn, ns uint32, runs map[string]int) error {
	p := layout.AppendName(layout.Prefix(nil, layout.KindIndex, ns), statusIndex)
	if txn.Counts() {
		return engineCounts(ctx, txn, p, runs)
	}
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	n := 0
	// All rows of one status are adjacent, so the status is decoded only at the first of them. at is the part of that
	// row's key that is the same for this status.
	var at []byte
	status, counted := "", 0
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
		if n++; n%rowsBetweenChecks == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if key := it.Key(); at == nil || !bytes.HasPrefix(key, at) {
			runs[status] += counted
			status, _, _ = layout.CutName(key[len(p):])
			at, counted = layout.AppendName(bytes.Clone(p), status), 0
		}
		counted++
	}
	runs[status] += counted
	return ctx.Err()
}

// engineCounts lets the storage engine count the index rows of each status, which is faster than
// reading them.
func engineCounts(ctx context.Context, txn *layout.Txn, p []byte, runs map[string]int) error {
	for _, status := range runStatuses {
		of := layout.AppendName(bytes.Clone(p), status)
		for behind, more := []byte(nil), true; more; more = behind != nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, last, err := txn.Count(of, behind, countedAtOnce)
			if err != nil {
				return err
			}
			runs[status] += n
			behind = last
		}
	}
	return nil
}

// CountRuns counts the runs of a namespace that have one of the statuses. It does not read the states of runs.
// It reads the status index of a namespace only once in a process, see [runCounts].
func (s *Store) CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error) {
	names := make([]string, 0, len(statuses))
	seen := make(map[machine.Status]bool, len(statuses))
	for _, status := range statuses {
		if !seen[status] {
			names = append(names, status.String())
		}
		seen[status] = true
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("count runs: %w", err)
	}
	n, err := s.runCounts.Count(ctx, s.view, ns, names)
	if err != nil {
		return 0, fmt.Errorf("count runs: %w", err)
	}
	return n, nil
}
