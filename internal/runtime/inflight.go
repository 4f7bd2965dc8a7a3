package runtime

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// inflight counts the runs that have not ended, in all namespaces. The store is
// asked once, at the first start; commits keep the count. Starts under way are
// not reserved: some may pass the limit together.
type inflight struct {
	store Store
	limit int64
	// delta is what commits of this process changed.
	delta atomic.Int64

	mu sync.Mutex
	// stored is what the store held when delta was zero; -1 = not asked yet.
	stored atomic.Int64
}

// activeStatuses are those of runs that have not ended.
var activeStatuses = []machine.Status{machine.Running, machine.Waiting}

func newInflight(store Store, limit int) *inflight {
	f := &inflight{store: store, limit: int64(limit)}
	f.stored.Store(-1)
	return f
}

// admit refuses a start that would pass the limit.
func (f *inflight) admit(ctx context.Context, namespaces map[string]uint32) error {
	if err := f.ask(ctx, namespaces); err != nil {
		return err
	}
	if got := f.stored.Load() + f.delta.Load() + 1; got > f.limit {
		return &machine.Refusal{
			Code: machine.CodeResourceExhausted, Reason: "RUNS_IN_FLIGHT",
			Message: "too many runs have not ended", Limit: f.limit, Got: got, RetryAfter: drainRetry,
		}
	}
	return nil
}

func (f *inflight) ask(ctx context.Context, namespaces map[string]uint32) error {
	if f.stored.Load() >= 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stored.Load() >= 0 {
		return nil
	}
	var total int64
	known := f.delta.Load()
	for name, ns := range namespaces {
		n, err := f.store.CountRuns(ctx, ns, activeStatuses)
		if err != nil {
			return fmt.Errorf("runtime: count runs of namespace %q: %w", name, err)
		}
		total += int64(n)
	}
	f.stored.Store(max(total-known, 0))
	return nil
}

// committed follows a run from one state to the next; before is nil at its start.
func (f *inflight) committed(before, after *machine.State) {
	was := before != nil && !before.Status.Terminal()
	is := !after.Status.Terminal()
	switch {
	case is && !was:
		f.delta.Add(1)
	case was && !is:
		f.delta.Add(-1)
	}
}
