package store

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/memkv"
)

func statusRow(run string) []byte {
	return layout.IndexKey(nil, 0, run, &machine.IndexChange{Index: statusIndex, Value: machine.Running.String()})
}

// TestTakesMissedChanges: a change that is synced while the rows are counted counts once, whether or not the
// count has seen it.
func TestTakesMissedChanges(t *testing.T) {
	t.Parallel()
	db := memkv.New()
	const now = 1
	batch := db.Batch()
	for _, run := range []string{"a", "b", "c"} {
		batch.Set(statusRow(run), nil)
	}
	stored := make(chan kv.Result, 1)
	batch.Commit(now, func(r kv.Result) { stored <- r })
	if r := <-stored; r.Err != nil {
		t.Fatal(r.Err)
	}
	view := func(read func(txn *layout.Txn) error) error {
		return read(&layout.Txn{View: kv.On(db.View(now))})
	}
	var c runCounts
	synced := func(ts uint64, remove bool) {
		c.Synced(ts, slices.Values([]*layout.Op{{Key: statusRow("r"), Delete: remove}, {Key: layout.HeadKey(0, "r")}}))
	}
	tally, mine := c.countOf(0)
	if !mine {
		t.Fatal("somebody counts already")
	}
	synced(now, false)  // in the snapshot
	synced(now+1, true) // not in it
	c.fill(t.Context(), view, 0, tally)
	synced(now, false) // in the snapshot, reported after the count
	synced(now+2, true)
	if got := c.sum(tally, []string{machine.Running.String()}); got != 1 {
		t.Errorf("%d runs, want 3 - 2", got)
	}
}

// countingSnapshot is a snapshot of an engine that counts keys itself, at most two in one call.
type countingSnapshot struct{ kv.Snapshot }

func (c countingSnapshot) Count(prefix, behind []byte, _ int) (n int, last []byte, err error) {
	it := c.Scan(kv.Range{Prefix: prefix, KeysOnly: true})
	defer it.Close()
	for err = it.Seek(behind); err == nil && it.Valid(); err = it.Next() {
		if bytes.Equal(it.Key(), behind) {
			continue
		}
		if n++; n == 2 {
			return n, bytes.Clone(it.Key()), nil
		}
	}
	return n, nil, err
}

// TestAnEngineThatCounts: the counts of all statuses of a namespace are right, with an engine that counts
// keys itself and with one that does not.
func TestAnEngineThatCounts(t *testing.T) {
	t.Parallel()
	db := memkv.New()
	batch := db.Batch()
	want := map[machine.Status]int{}
	for n := range 40 {
		status := machine.Running + machine.Status(n*n)%machine.Cancelled
		want[status]++
		change := &machine.IndexChange{Index: statusIndex, Value: status.String()}
		batch.Set(layout.IndexKey(nil, 1, fmt.Sprint(n), change), nil)
		batch.Set(layout.IndexKey(nil, 2, fmt.Sprint(n), change), nil)
		batch.Set(layout.IndexKey(nil, 1, fmt.Sprint(n), &machine.IndexChange{Index: "pack", Value: status.String()}), nil)
	}
	stored := make(chan kv.Result, 1)
	batch.Commit(1, func(r kv.Result) { stored <- r })
	if r := <-stored; r.Err != nil {
		t.Fatal(r.Err)
	}
	for name, snap := range map[string]kv.Snapshot{"counts": countingSnapshot{db.View(1)}, "shows": db.View(1)} {
		var c runCounts
		view := func(read func(txn *layout.Txn) error) error { return read(&layout.Txn{View: kv.On(snap)}) }
		for status := machine.Running; status <= machine.Cancelled; status++ {
			if got, err := c.Count(t.Context(), view, 1, []string{status.String()}); err != nil || got != want[status] {
				t.Errorf("%s: %d runs are %s, want %d, %v", name, got, status, want[status], err)
			}
		}
		snap.Close()
	}
}
