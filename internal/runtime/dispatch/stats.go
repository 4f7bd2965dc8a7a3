package dispatch

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Stats counts workers and work, for metrics.
type Stats struct {
	// Workers is the number of connected workers. Turns and Steps are the numbers of turns and steps
	// that they have.
	Workers, Turns, Steps int
	// Waiting is the ready work that no worker has yet. Unserved is the part that no connected worker
	// can execute. In a namespace to which a worker has connected, both count only the work in memory.
	// In any other namespace, both are the number of ready turns in the store, at most 10 000.
	Waiting, Unserved int
}

// Stats returns the sums over the given namespaces. The ready turns of a namespace that cannot be read
// are missing.
func (r *Dispatcher) Stats(ctx context.Context, namespaces []uint32) Stats {
	var all Stats
	for _, ns := range namespaces {
		if sp := r.shard(ns); sp != nil && sp.count(&all) {
			continue
		}
		// No worker of the namespace has connected since the start, so its ready work is only in the
		// store.
		ready, err := r.cfg.Store.ReadyRuns(ctx, ns, "", maxUnservedScan)
		if err == nil {
			all.Waiting += len(ready)
			all.Unserved += len(ready)
		}
	}
	return all
}

// count adds the counts of the shard to stats. It returns false if no worker has connected yet, so that
// the shard does not know the ready work.
func (sp *namespaceShard) count(stats *Stats) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if !sp.scanned {
		return false
	}
	stats.Workers += len(sp.workers)
	for _, w := range sp.workers {
		stats.Turns += len(w.turns)
		stats.Steps += len(w.steps)
	}
	for _, n := range sp.waiting {
		stats.Waiting += n
	}
	sp.matcher.Unserved(func(_ machine.WorkClass, n int) bool {
		stats.Unserved += n
		return true
	})
	return true
}

// maxUnservedScan bounds the runs that one call of [Dispatcher.Unserved] examines, and the ready turns that [Dispatcher.Stats] reads for a
// namespace.
const maxUnservedScan = 10_000

// UnservedRequest is the argument of [Dispatcher.Unserved].
type UnservedRequest struct {
	runtime.Call
	// Filter selects runs. Its statuses are ignored, because only RUNNING runs wait for a worker.
	Filter machine.RunFilter
	// PageToken is the next token of the previous page. "" means the first page.
	PageToken string
	// PageSize is the largest number of runs in the page, at most 1 000. 0 means 100.
	PageSize int
}

// Unserved lists the runs with a ready turn that no connected worker can execute. next is the token of
// the next page. It is "" on the last page. A page may have fewer runs than requested although more
// pages follow.
func (r *Dispatcher) Unserved(ctx context.Context, req UnservedRequest) (runs []*machine.State, next string, err error) {
	ns, err := r.cfg.Engine.Admit(req.Call, policy.RunsRead|policy.RunsWrite)
	if err != nil {
		return nil, "", err
	}
	size, err := validate.PageSize(req.PageSize)
	if err != nil {
		return nil, "", err
	}
	filter := req.Filter
	filter.Status = []machine.Status{machine.Running}
	next = req.PageToken
	served := make(map[machine.WorkClass]bool)
	for scanned := 0; len(runs) < size && scanned < maxUnservedScan; {
		page, after, err := r.cfg.Store.ListRuns(ctx, ns, filter, next, size-len(runs))
		if err != nil {
			return nil, "", validate.ListFailed("runs", err)
		}
		for _, s := range page {
			waits, err := r.unserved(ctx, ns, s, served)
			if err != nil {
				return nil, "", err
			}
			if waits {
				runs = append(runs, s)
			}
		}
		scanned += len(page)
		if next = after; next == "" {
			break
		}
	}
	return runs, next, nil
}

// unserved reports whether the run has a ready turn that no connected worker can execute. The map
// served caches the result for each class of work.
func (r *Dispatcher) unserved(ctx context.Context, ns uint32, s *machine.State, served map[machine.WorkClass]bool) (bool, error) {
	prog, err := r.cfg.Packs.ProgramOf(ctx, ns, s)
	if err != nil {
		return false, fmt.Errorf("runtime: %w", err)
	}
	if !rules.Ready(prog.Graph, s) {
		return false, nil
	}
	class := turnClass(s, prog.Graph)
	known, asked := served[class]
	if !asked {
		known = r.serves(ns, &class)
		served[class] = known
	}
	return !known, nil
}

// turnClass returns the class of work to which the open turn of a state belongs.
func turnClass(s *machine.State, g *machine.Graph) machine.WorkClass {
	class := classOf(s)
	class.Kind, class.Prompt, class.Agent = machine.TurnWork, g.States[s.Current].Prompt, s.Agent
	class.Sidecar = s.Execution == machine.Sidecar
	return class
}

// serves reports whether a connected worker can execute work of the class.
func (r *Dispatcher) serves(ns uint32, class *machine.WorkClass) bool {
	sp := r.shard(ns)
	if sp == nil {
		return false
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, worker := range sp.workers {
		if worker.offer.Serves(class) {
			return true
		}
	}
	return false
}
