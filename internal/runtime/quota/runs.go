package quota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Counter counts stored runs.
type Counter interface {
	// CountRuns counts the runs in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)
}

// Runs counts the open runs of each namespace and of all namespaces, including runs that are about to
// start. It reads the number from the store once, at the first start. After that, each commit updates
// the count. A run that was imported before its end is counted only after the next restart. Safe for
// concurrent use.
type Runs struct {
	limits *Limits
	store  Counter
	// limit is the bound of all namespaces together.
	limit int64

	// first serializes the first count. Concurrent starts wait for this count. Commits of other runs do
	// not wait for it.
	first sync.Mutex
	// loading blocks commits that start or end a run while the runs in the store are counted.
	loading sync.RWMutex
	loaded  atomic.Bool
	// total is guarded by the mutex of limits.
	total int64
}

// activeStatuses are the statuses of open runs.
var activeStatuses = []machine.Status{machine.Running, machine.Waiting}

// drainRetry is the retry delay of a start that is refused because there are too many runs.
const drainRetry = time.Second

// NewRuns returns Runs for the namespaces of book. It does not read the store yet.
func NewRuns(book *Limits, store Counter, limit int) *Runs {
	return &Runs{limits: book, store: store, limit: int64(limit)}
}

// Begin admits a run of a principal. It returns an error if the run exceeds a bound: the bound of all
// runs, of the runs of the namespace, or of starts. The caller must call settle once, and report
// whether the run was created.
func (r *Runs) Begin(ctx context.Context, ns uint32, principal string, now time.Time) (settle func(begun bool), err error) {
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	space := Namespace(r.limits.Name(ns))
	var back []func()
	undo := func() {
		for _, give := range back {
			give()
		}
	}
	for _, h := range []Holder{space, Principal(principal)} {
		give, err := r.limits.Spend(h, Starts, now)
		if err != nil {
			undo()
			return nil, err
		}
		back = append(back, give)
	}
	if err := r.enter(space); err != nil {
		undo()
		return nil, err
	}
	return func(begun bool) {
		if !begun {
			undo()
			r.left(space)
		}
	}, nil
}

func (r *Runs) enter(space Holder) error {
	b, k := r.limits, key{space, OpenRuns}
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := r.total + 1; got > r.limit {
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "RUNS_IN_FLIGHT",
			Message: "too many runs have not ended", Limit: r.limit, Got: got, RetryAfter: int64(drainRetry),
		}
	}
	if most, got := b.Most(space, OpenRuns), b.open[k]+1; most > 0 && got > most {
		return b.refusal(space, OpenRuns, most, got, drainRetry)
	}
	r.total++
	b.open[k]++
	return nil
}

func (r *Runs) left(space Holder) {
	r.limits.mu.Lock()
	defer r.limits.mu.Unlock()
	r.total--
	r.limits.open[key{space, OpenRuns}]--
}

// load counts the stored runs. It counts once before it blocks commits and once afterwards. The store
// caches the result of the first count, so the second count is fast.
func (r *Runs) load(ctx context.Context) error {
	if r.loaded.Load() {
		return nil
	}
	if _, err := r.count(ctx); err != nil {
		return err
	}
	r.first.Lock()
	defer r.first.Unlock()
	if r.loaded.Load() {
		return nil
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	open, err := r.count(ctx)
	if err != nil {
		return err
	}
	r.limits.mu.Lock()
	defer r.limits.mu.Unlock()
	for k, n := range open {
		r.limits.open[k] = n
		r.total += n
	}
	r.loaded.Store(true)
	return nil
}

func (r *Runs) count(ctx context.Context) (map[key]int64, error) {
	open := make(map[key]int64, len(r.limits.names))
	for ns, name := range r.limits.names {
		n, err := r.store.CountRuns(ctx, ns, slices.Clone(activeStatuses))
		if err != nil {
			return nil, fmt.Errorf("count runs of namespace %q: %w", name, err)
		}
		open[key{Namespace(name), OpenRuns}] = int64(n)
	}
	return open, nil
}

// Committing announces a commit that changes a run from one state to the next. before is nil for a new
// run. The caller must then call [Runs.Committed].
func (r *Runs) Committing(before, after *machine.State) {
	if counts(before, after) {
		r.loading.RLock()
	}
}

// Committed records whether the commit was stored. It reports whether the commit created a run.
func (r *Runs) Committed(before, after *machine.State, stored bool) (begun bool) {
	if !counts(before, after) {
		return false
	}
	defer r.loading.RUnlock()
	if stored && after.Status.Terminal() && r.loaded.Load() {
		r.left(Namespace(r.limits.Name(after.Namespace)))
	}
	return stored && before == nil
}

// counts reports whether the commit creates or ends a run.
func counts(before, after *machine.State) bool {
	return before == nil || after.Status.Terminal() && !before.Status.Terminal()
}
