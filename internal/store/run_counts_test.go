package store

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// rowsOf counts the rows of a status themselves.
func rowsOf(t *testing.T, s *Store, ns uint32, status machine.Status) int {
	t.Helper()
	n := 0
	err := s.view(func(txn *layout.Txn) error {
		n = countRows(txn, layout.IndexPrefix(nil, ns, "status", status.String()), math.MaxInt)
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

// TestCensusCountsAgain: who gave up does not spoil the count for the others.
func TestCensusCountsAgain(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	if _, err := s.Commit(t.Context(), startBatch(runID(1), "")); err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.runCounts.Count(ended, s.view, 0, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("a count with an ended context: %v", err)
	}
	if n, err := s.CountRuns(t.Context(), 0, []machine.Status{machine.Running}); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestCountRuns(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	ctx := context.Background()
	for i := range 5 {
		if _, err := s.Commit(ctx, startBatch(runID(i), "")); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		ns       uint32
		statuses []machine.Status
		want     int
	}{
		{0, []machine.Status{machine.Running}, 5},
		{0, []machine.Status{machine.Running, machine.Waiting, machine.Running}, 5},
		{0, []machine.Status{machine.Waiting}, 0},
		{0, nil, 0},
		{7, []machine.Status{machine.Running}, 0},
	}
	for _, tt := range tests {
		if got, err := s.CountRuns(ctx, tt.ns, tt.statuses); err != nil || got != tt.want {
			t.Errorf("CountRuns(%d, %v) = %d, %v; want %d", tt.ns, tt.statuses, got, err, tt.want)
		}
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if _, err := s.CountRuns(ended, 0, []machine.Status{machine.Running}); err == nil {
		t.Error("a count with an ended context succeeded")
	}
}
