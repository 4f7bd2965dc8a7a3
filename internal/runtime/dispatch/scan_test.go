package dispatch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// scannedStore counts the ready runs that were listed, and the lists that began at the first run.
type scannedStore struct {
	runtime.Store
	listed, begun atomic.Int64
}

func (s *scannedStore) ReadyRuns(ctx context.Context, ns uint32, after string, limit int) ([]string, error) {
	if after == "" {
		s.begun.Add(1)
	}
	runs, err := s.Store.ReadyRuns(ctx, ns, after, limit)
	s.listed.Add(int64(len(runs)))
	return runs, err
}

// TestScanGoesOn: a pack has more ready turns than are held in memory. The scan continues where it stopped,
// and all turns are served.
func TestScanGoesOn(t *testing.T) {
	t.Parallel()
	var store *scannedStore
	r := newRig(t, func(c *runtime.Config) {
		store = &scannedStore{Store: c.Store}
		c.Store = store
	})
	r.Work.HoldWaiting(16)
	const runs = 120
	for i := range runs {
		r.startWorkers(fmt.Sprint("s", i))
	}
	w := r.connect("w")
	for ended := 0; ended < runs; w.Credit(1, 0) {
		if d := w.turn(); len(d.View.Events) > 0 {
			w.mustComplete(d, "Finish")
		} else if w.mustComplete(d, "").State.Status == machine.Completed {
			ended++
		}
	}
	if n := store.begun.Load(); n != 1 {
		t.Errorf("%d scans began at the first run, want 1", n)
	}
	t.Logf("%d ready runs were listed for %d", store.listed.Load(), runs)
}
