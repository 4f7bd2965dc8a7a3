package store

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// rowsOf counts the rows of a status themselves.
func rowsOf(t *testing.T, s *Store, ns uint32, status machine.Status) int {
	t.Helper()
	n := 0
	err := s.view(func(txn *badger.Txn) error {
		n = countRows(txn, layout.IndexPrefix(nil, ns, statusIndex, status.String()), math.MaxInt)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCensusFollowsCommits: counts that were asked for before, between and beside
// commits are those of the rows.
func TestCensusFollowsCommits(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	ctx := t.Context()
	const writers, each = 8, 40
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				b := startBatch(runID(w*each+i), "")
				if _, err := s.Commit(ctx, b); err != nil {
					t.Error(err)
					return
				}
			}
		})
		group.Go(func() {
			if n, err := s.CountRuns(ctx, 0, []machine.Status{machine.Running}); err != nil || n > writers*each {
				t.Errorf("beside commits: %d, %v", n, err)
			}
		})
	}
	group.Wait()
	for _, status := range []machine.Status{machine.Running, machine.Waiting} {
		got, err := s.CountRuns(ctx, 0, []machine.Status{status})
		if want := rowsOf(t, s, 0, status); err != nil || got != want {
			t.Errorf("%s: %d, %v; the rows say %d", status, got, err, want)
		}
	}
}

// TestCensusTakesMissedChanges: what is synced while the rows are counted is added
// once, whether or not the count has seen it.
func TestCensusTakesMissedChanges(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	for i := range 3 {
		if _, err := s.Commit(t.Context(), startBatch(runID(i), "")); err != nil {
			t.Fatal(err)
		}
	}
	row := func(ts uint64, remove bool) (uint64, *group) {
		op := layout.Op{Key: layout.IndexKey(nil, 0, "r", &machine.IndexChange{Index: statusIndex, Value: machine.Running.String()}), Delete: remove}
		return ts, &group{requests: []*request{{w: &Writes{ops: []layout.Op{op, {Key: layout.HeadKey(0, "r")}}}}}}
	}
	now := uint64(0)
	if err := s.view(func(txn *badger.Txn) error { now = txn.ReadTs(); return nil }); err != nil {
		t.Fatal(err)
	}
	tally, mine := s.census.tallyOf(0)
	if !mine {
		t.Fatal("somebody counts already")
	}
	s.census.synced(row(now, false))  // in the snapshot
	s.census.synced(row(now+1, true)) // not in it
	s.census.fill(t.Context(), s, 0, tally)
	s.census.synced(row(now, false)) // in the snapshot, told after the count
	s.census.synced(row(now+2, true))
	if got := s.census.sum(tally, []string{machine.Running.String()}); got != 1 {
		t.Errorf("%d runs, want 3 - 2", got)
	}
}

// TestCensusCountsAgain: who gave up does not spoil the count for the others.
func TestCensusCountsAgain(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	if _, err := s.Commit(t.Context(), startBatch(runID(1), "")); err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.census.count(ended, s, 0, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("a count with an ended context: %v", err)
	}
	if n, err := s.CountRuns(t.Context(), 0, []machine.Status{machine.Running}); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
}
