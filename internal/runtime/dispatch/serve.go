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

// Served names a run with the execution CALLER that a worker serves. It also names the tools of the
// steps that the worker executes in the run. "*" means all tools.
type Served struct {
	RunID string
	Tools []string
}

// UnservedCause is the reason why a worker no longer serves a run.
type UnservedCause uint8

const (
	// UnservedEnded means that the run has ended.
	UnservedEnded UnservedCause = iota + 1
	// UnservedWaiting means that the run has no work until an external input arrives.
	UnservedWaiting
	// UnservedTaken means that another worker has taken the run over.
	UnservedTaken
	// UnservedRefused means that the worker may not serve the run.
	UnservedRefused
)

// serving records that one worker executes a run of execution CALLER. The turns and steps of the
// run bypass the matcher and use neither capacity nor credit.
type serving struct {
	worker *Worker
	tools  []string
	// asking counts the active requests that send the turns that they open. given holds the turns that
	// such requests have opened.
	asking int
	given  []*turnLease
}

// servesTool reports whether the worker executes steps of the tool.
func (s *serving) servesTool(tool string) bool {
	return s != nil && (slices.Contains(s.tools, tool) || slices.Contains(s.tools, "*"))
}

// Serve makes the worker execute a run of the execution CALLER: its turns, and its steps with the named
// tools. Ready work is assigned immediately. If another worker served the run before, that worker
// receives UnservedTaken.
//
// Errors: NOT_FOUND RUN_NOT_FOUND; PERMISSION_DENIED TURN_LEASED, SCOPE_MISSING; FAILED_PRECONDITION
// IMPORTED; RESOURCE_EXHAUSTED MAX_SERVED_RUNS; UNAVAILABLE COMMIT_UNKNOWN, DATABASE_AWAY.
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
		sp.settle(s, prog.Graph, nil, held)
		return nil
	})
}

// Release ends the serving of a run. The turn of the run waits until another worker serves the run. The worker may still answer the steps
// that it holds. If the worker does not serve the run, Release does nothing.
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

// Deliver executes a request of the worker that ends a turn of a run. Before Deliver returns, it sends
// the turns that the request opened, so that one message contains both these turns and the receipt of
// the request. The request must wait only for its own commit, because Deliver holds back the turns that
// other requests open until it returns.
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

// Serves reports whether a worker serves a run. While a worker serves the run, turn tokens of other callers are not valid.
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

// forget drops an open turn of a run with the execution CALLER if no worker serves the run. forget
// keeps a turn with lost deliveries, so that their count continues when a worker serves the run again.
func (run *workRun) forget(s *machine.State) {
	if turn := run.turn; turn != nil && turn.lease == nil && turn.lost == 0 && run.serving == nil && !s.Execution.Leased() {
		run.turn = nil
	}
}

// servable checks that the caller may serve the run and returns the key of the run.
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
		return key, rules.Imported()
	}
	_, err = policy.Decide(policy.Ask{Act: policy.Fetch, Principal: call.Principal, Leased: s.Execution.Leased()})
	return key, runtime.Denied(err)
}

// serve records that the worker serves the run, and ends the serving by another worker.
func (sp *namespaceShard) serve(w *Worker, served Served) error {
	if w.gone {
		return nil // the stream of the worker has ended, so an answer is not needed
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

// unserve ends the serving of a run and the lease of its turn. The worker keeps its steps, because
// their tools may be running.
func (sp *namespaceShard) unserve(run *workRun, cause RevokeCause) {
	w := run.serving.worker
	run.serving = nil
	w.dropServed(run.id)
	if run.turn != nil && run.turn.lease != nil {
		sp.endLease(run.turn, cause, false)
	}
}

// settleServing ends the serving of a run that has no work left.
func (sp *namespaceShard) settleServing(run *workRun, s *machine.State, g *machine.Graph) {
	if run.serving == nil || !rules.Rests(g, s) {
		return
	}
	w, cause := run.serving.worker, UnservedWaiting
	if s.Status.Terminal() {
		cause = UnservedEnded
	}
	sp.unserve(run, RevokedAbandoned)
	w.sink.Unserved(run.id, cause)
	go sp.refresh(run.id) // Other workers execute the remaining steps.
}

// ready reports whether the turn of the run can be executed now. If a worker serves the run, only this worker can execute it.
func (run *workRun) ready(g *machine.Graph, s *machine.State) bool {
	return rules.Ready(g, s) || run.serving != nil && rules.Executable(g, s)
}

// resumeServing lets a reconnected worker continue to serve its runs, except runs that another worker has taken over since.
func (sp *namespaceShard) resumeServing(w, old *Worker, req *WorkerRequest) {
	for _, served := range req.Served {
		run := sp.runs[served.RunID]
		if old != nil && run.servedBy(old) {
			// The worker keeps its work. Only its connection is new.
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

// counted returns the number of turns and steps that use the capacities of the worker. Work of served runs uses no capacity.
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

// keeps reports whether a worker that reconnects may keep a turn or step of a run. served reports
// whether the worker keeps this work because it serves the run. A worker that does not serve the run
// must offer work of the class and must have free capacity.
func (w *Worker) keeps(run *workRun, class *machine.WorkClass) (served, ok bool) {
	if run.servedBy(w) && (class.Kind == machine.TurnWork || run.serving.servesTool(class.Tool)) {
		return true, true
	}
	turns, steps := w.counted()
	if class.Kind == machine.StepWork {
		return false, steps < w.offer.Steps && w.offer.Serves(class)
	}
	return false, turns < w.offer.Turns && w.offer.Serves(class)
}

// checkServed sets, in the request, the served runs that the worker may not serve.
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
