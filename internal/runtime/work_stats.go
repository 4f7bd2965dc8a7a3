package runtime

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/request"
)

// WorkStats says how the work of a namespace stands, for metrics.
type WorkStats struct {
	// Workers that are connected; Turns and Steps that they hold.
	Workers, Turns, Steps int
	// Waiting is ready work that nobody has; Unserved is what of it no connected
	// worker serves. Both are bounded by what is held in memory.
	Waiting, Unserved int
}

// Work tells how the work of a namespace stands. Zero before its first worker
// connected. Error: NOT_FOUND NAMESPACE_NOT_FOUND.
func (e *Engine) Work(namespace string) (WorkStats, error) {
	ns, err := e.namespace(namespace)
	if err != nil {
		return WorkStats{}, err
	}
	sp := e.work.space(ns)
	if sp == nil {
		return WorkStats{}, nil
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	stats := WorkStats{Workers: len(sp.workers)}
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
	return stats, nil
}

// maxUnservedScan bounds the runs that one page of unserved ones looks at.
const maxUnservedScan = 10_000

// listUnserved lists the runs whose ready turn no connected worker serves. A page
// may be short although more follow.
func (e *Engine) listUnserved(ctx context.Context, ns uint32, req *ListRunsRequest, size int) (RunPage, error) {
	filter := req.Filter
	filter.Status = []machine.Status{machine.Running}
	page := RunPage{NextPage: req.PageToken}
	served := make(map[machine.WorkClass]bool)
	for scanned := 0; len(page.Runs) < size && scanned < maxUnservedScan; {
		runs, next, err := e.store.ListRuns(ctx, ns, filter, page.NextPage, size-len(page.Runs))
		if err != nil {
			return RunPage{}, request.ListFailed("runs", err)
		}
		for _, s := range runs {
			waits, err := e.unserved(ctx, ns, s, served)
			if err != nil {
				return RunPage{}, err
			}
			if waits {
				page.Runs = append(page.Runs, s)
			}
		}
		scanned += len(runs)
		if page.NextPage = next; next == "" {
			break
		}
	}
	return page, nil
}

// unserved: the run's turn is ready and no worker serves it. served remembers the
// classes that were asked for.
func (e *Engine) unserved(ctx context.Context, ns uint32, s *machine.State, served map[machine.WorkClass]bool) (bool, error) {
	prog, err := e.programs.Of(ctx, ns, s)
	if err != nil {
		return false, fmt.Errorf("runtime: %w", err)
	}
	if !rules.Ready(prog.Graph, s) {
		return false, nil
	}
	class := turnClass(s, prog.Graph)
	known, asked := served[class]
	if !asked {
		known = e.work.serves(ns, &class)
		served[class] = known
	}
	return !known, nil
}

// turnClass is the class of a state's open turn.
func turnClass(s *machine.State, g *machine.Graph) machine.WorkClass {
	class := classOf(s)
	class.Kind, class.Prompt, class.Agent = machine.TurnWork, g.States[s.Current].Prompt, s.Agent
	return class
}

// serves: some connected worker executes work of the class.
func (w *work) serves(ns uint32, class *machine.WorkClass) bool {
	sp := w.space(ns)
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
