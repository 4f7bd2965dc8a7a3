package dispatch_test

import (
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// missingRunStore lists a ready run that does not exist, as a list does that was read before the run was deleted.
type missingRunStore struct {
	runtime.Store
}

func (s missingRunStore) ReadyRuns(ctx context.Context, ns uint32, after string, limit int) ([]string, error) {
	runs, err := s.Store.ReadyRuns(ctx, ns, after, limit)
	if after == "" {
		runs = slices.Insert(runs, 0, "deleted")
	}
	return runs, err
}

// TestMissingRunIsNotReadAgain: the dispatcher reads a run that does not exist. It plans no further read.
func TestMissingRunIsNotReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *runtime.Config) { c.Store = missingRunStore{c.Store} })
	r.startWorkers("s")
	w := r.connect("w")
	w.turn() // the scan has read the missing run before this one
	if n := r.Work.Timers(); n != 1 {
		t.Errorf("%d timers are set, want only that of the lease", n)
	}
}
