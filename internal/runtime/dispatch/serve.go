package dispatch

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Served names a run with the execution CALLER that one worker serves, so that this worker executes all of its turns.
// Tools are the tools whose steps the worker executes in the run. "*" means all tools.
type Served struct {
	RunID string
	Tools []string
}

// UnservedCause is the reason why a worker no longer serves (executes alone) a run.
type UnservedCause uint8

const (
	// UnservedEnded means that the run has ended.
	UnservedEnded UnservedCause = iota + 1
	// UnservedWaiting means that the run has no work until an external input arrives.
	UnservedWaiting
	// UnservedTaken means that another worker has taken the run over.
	UnservedTaken
	// UnservedRefused means that the worker has no right to serve the run.
	UnservedRefused
)

// serving records that one worker executes a run with the execution CALLER. The turns and steps of the run are not
// matched with other workers, and they use neither capacity nor credits.
type serving struct {
	worker *Worker
	tools  []string
	// asking is the number of the worker's requests in progress that may open a turn. The answer to each request will
	// contain the turn that it opens. given are the turns that these requests have opened.
	asking int
	given  []*turnLease
}

// servesStep reports whether the worker that serves the run executes steps of the class.
func (s *serving) servesStep(c *machine.WorkClass) bool {
	return s != nil && !c.Sidecar && (slices.Contains(s.tools, c.Tool) || slices.Contains(s.tools, "*"))
}

// Serve makes the worker execute a run with the execution CALLER: its turns, and its steps with the named tools. Ready
// work of the run is assigned immediately. If another worker served the run before, it receives UnservedTaken.
//
// Errors: NOT_FOUND RUN_NOT_FOUND; PERMISSION_DENIED TURN_LEASED, SCOPE_MISSING; FAILED_PRECONDITION IMPORTED; RESOURCE_EXHAUSTED
// MAX_SERVED_RUNS, QUEUE_FULL; UNAVAILABLE COMMIT_UNKNOWN, DATABASE_AWAY.
func (w *Worker) Serve(ctx context.Context, served Served) error {
	sp := w.shard
	key, err := sp.servable(ctx, w.call, served.RunID)
	if err != nil {
		return err
	}
	return sp.dispatcher.cfg.Engine.WithRunLock(key, func() error {
		s, prog, err := sp.dispatcher.cfg.Engine.Current(ctx, key)
		if err != nil {
			return err
		}
		held, err := sp.dispatcher.holders(ctx, prog.Graph, s)
		if err != nil {
			return err
		}
		sp.mu.Lock()
		defer sp.mu.Unlock()
		if err := sp.serve(w, served); err != nil {
			return err
		}
		sp.settle(s, prog.Graph, nil, held) // without a commit, settle returns no function to call
		return nil
	})
}

// Release makes the worker stop serving a run. The turn of the run waits until a worker serves the run again, or a caller takes it by
// GetTurn. The worker may still answer the steps that it has. If the worker does not serve the run, Release does nothing.
func (w *Worker) Release(run string) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.shard.release(w, run)
}

func (sp *namespaceShard) release(w *Worker, run string) {
	if at := sp.runs[run]; at.servedBy(w) {
		sp.unserve(at, RevokedAbandoned)
		go sp.refresh(run)
	}
}

// Deliver executes a request of the worker that ends a turn of a run it serves. The turns that the request opens are
// sent before Deliver returns, so that one message can contain them together with the answer to the request. The
// request must wait only for its own commit, because turns of the run are held back until it returns.
func (w *Worker) Deliver(run string, request func()) {
	sp := w.shard
	sp.mu.Lock()
	served := sp.runs[run]
	if !served.servedBy(w) {
		sp.mu.Unlock()
		request()
		return
	}
	at := served.serving
	at.asking++
	sp.mu.Unlock()
	defer func() {
		sp.mu.Lock()
		given := at.given
		at.asking, at.given = at.asking-1, nil
		sp.mu.Unlock()
		for _, lease := range given {
			sp.deliverTurn(lease)
		}
	}()
	request()
}

// servedBy reports whether the worker serves the run.
func (run *workRun) servedBy(w *Worker) bool {
	return run != nil && run.serving != nil && run.serving.worker == w
}

// Serving returns how many runs the worker serves.
func (w *Worker) Serving() int {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return len(w.served)
}

// Serves reports whether a worker serves (executes alone) a run. If so, turn tokens of callers for the run are not
// valid.
func (r *Dispatcher) Serves(key runtime.RunKey) bool {
	sp := r.shard(key.Namespace)
	if sp == nil {
		return false
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	run := sp.runs[key.ID]
	return run != nil && run.serving != nil
}

// forget drops the open turn of a run with the execution CALLER that no worker serves. A turn is kept if workers lost
// it by disconnecting, so that the count of these losses continues when a worker serves the run again.
func (run *workRun) forget(s *machine.State) {
	if turn := run.turn; turn != nil && turn.lease == nil && turn.lost == 0 && run.serving == nil && !s.Execution.Leased() {
		run.turn = nil
	}
}

// servable checks that the caller may serve the run, and returns the key of the run.
func (sp *namespaceShard) servable(ctx context.Context, call runtime.Call, run string) (runtime.RunKey, error) {
	if _, err := sp.dispatcher.cfg.Engine.Admit(call, policy.RunsWrite); err != nil {
		return runtime.RunKey{}, err
	}
	key, err := sp.dispatcher.cfg.Engine.Find(runtime.RunRef{Call: call, RunID: run})
	if err != nil {
		return key, err
	}
	s, _, err := sp.dispatcher.cfg.Engine.Current(ctx, key)
	if err != nil {
		return key, err
	}
	if s.Imported {
		return key, rules.ImportedRunError()
	}
	_, err = policy.Decide(policy.Ask{Act: policy.Fetch, Principal: call.Principal, Leased: s.Execution.Leased()})
	return key, runtime.PolicyError(err)
}

// serve records that the worker serves the run. If another worker served it before, that worker no longer does.
func (sp *namespaceShard) serve(w *Worker, served Served) error {
	if w.gone {
		return nil // the connection of the worker has ended, so it needs no answer
	}
	run := sp.run(served.RunID)
	if err := w.checkServedLimit(&served); err != nil {
		return err
	}
	if before := run.serving; before != nil && before.worker != w {
		sp.unserve(run, RevokedSuperseded)
		before.worker.sink.Unserved(run.id, UnservedTaken)
	}
	run.serving = &serving{worker: w, tools: served.Tools}
	w.takeServed(&served)
	return nil
}

// unserve ends the serving of a run by its worker, and the lease of the run's turn. The worker keeps its steps, because
// their tools may be running.
func (sp *namespaceShard) unserve(run *workRun, cause RevokeCause) {
	w := run.serving.worker
	run.serving = nil
	w.dropServed(run.id)
	if run.turn != nil && run.turn.lease != nil {
		sp.endLease(run.turn, cause, false)
	}
}

// settleServing ends the serving of a run that has ended, or that has no work left until an input or event arrives.
func (sp *namespaceShard) settleServing(run *workRun, s *machine.State, g *machine.Graph) {
	if run.serving == nil || !rules.IsAtRest(g, s) {
		return
	}
	w, cause := run.serving.worker, UnservedWaiting
	if s.Status.Terminal() {
		cause = UnservedEnded
	}
	sp.unserve(run, RevokedAbandoned)
	w.sink.Unserved(run.id, cause)
	go sp.refresh(run.id) // workers that do not serve the run execute its remaining steps
}

// ready reports whether the turn of the run can be executed now by workers. In a run with the execution CALLER, only
// the worker that serves the run can execute it.
func (run *workRun) ready(g *machine.Graph, s *machine.State) bool {
	return rules.Ready(g, s) || run.serving != nil && rules.Executable(g, s)
}

// resumeServing lets a reconnected worker continue to serve its runs, except those that another worker serves now or
// that it may not serve.
func (sp *namespaceShard) resumeServing(w, old *Worker, req *WorkerRequest) {
	for _, served := range req.Served {
		run := sp.runs[served.RunID]
		if old != nil && run.servedBy(old) {
			// The new connection of the worker has the run and its work from now on, so the old connection must no
			// longer count them.
			old.dropServed(run.id)
			run.serving.worker = w
			w.takeServed(&served)
		}
		switch {
		case req.refused[served.RunID]:
			sp.release(w, served.RunID)
			w.sink.Unserved(served.RunID, UnservedRefused)
		case run != nil && run.serving != nil && !run.servedBy(w):
			w.sink.Unserved(served.RunID, UnservedTaken)
		case sp.serve(w, served) != nil:
			w.sink.Unserved(served.RunID, UnservedRefused)
		default:
			go sp.refresh(served.RunID)
		}
	}
}

// counted returns the number of turns and steps that use the capacities of the worker. The work of runs that it serves
// uses no capacity.
func (w *Worker) counted() (turns, steps int) {
	for _, lease := range w.turns {
		if !lease.served {
			turns++
		}
	}
	for _, lease := range w.steps {
		if !lease.served {
			steps++
		}
	}
	return turns, steps
}

// keeps reports whether a reconnected worker may keep a turn or step of a run. served reports whether the worker keeps
// the work because it serves (executes alone) the run. Otherwise it must offer work of the class and have free capacity.
func (w *Worker) keeps(run *workRun, class *machine.WorkClass) (served, ok bool) {
	if run.servedBy(w) && (class.Kind == machine.TurnWork || run.serving.servesStep(class)) {
		return true, true
	}
	turns, steps := w.counted()
	if class.Kind == machine.StepWork {
		return false, steps < w.offer.Steps && w.offer.Serves(class)
	}
	return false, turns < w.offer.Turns && w.offer.Serves(class)
}

// checkServed checks which of the runs in the request the worker has no right to serve, and stores them in the request.
func (r *Dispatcher) checkServed(ctx context.Context, ns uint32, req *WorkerRequest) error {
	req.refused = make(map[string]bool)
	for _, served := range req.Served {
		_, err := r.open(ns).servable(ctx, req.Call, served.RunID)
		if _, refused := errors.AsType[*machine.Error](err); err != nil && !refused || away(err) {
			return err
		}
		req.refused[served.RunID] = err != nil
	}
	return nil
}
