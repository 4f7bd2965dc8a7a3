package pawl

import (
	"context"
	"errors"
	"fmt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Serving is what executes one run of EXECUTION_CALLER.
type Serving struct {
	// Turn executes the turns whose prompt has no function of its own.
	Turn TurnFunc
	// Prompts executes turns by their prompts. Default: none.
	Prompts map[string]TurnFunc
	// Tools executes steps by their tools; "*" takes those that have no function of their
	// own. Steps of other tools go to other workers. Default: none.
	Tools map[string]ToolFunc
	// OnError gets each error of a function of the run, and of its answer. Several goroutines call
	// it. A mistake of the program is the error of the serving instead. Default: errors are dropped.
	OnError func(error)
}

// Errors of [Worker.Serve].
var (
	// ErrServed: this worker serves the run already.
	ErrServed = errors.New("this worker serves the run already")
	// ErrTakenOver: another worker has taken the run over.
	ErrTakenOver = errors.New("another worker has taken the run over")
	// ErrNotServed: the sidecar does not let the worker serve the run any more: it was deleted,
	// or the principal has lost the right to it.
	ErrNotServed = errors.New("the run is not this worker's to serve any more")
	// ErrNoTurnFunc: the program has no function for a prompt of the run.
	ErrNoTurnFunc = errors.New("no function for the prompt")
	// ErrStopped: [Worker.Run] has returned.
	ErrStopped = errors.New("the worker has stopped")
)

// served is a run that the worker serves.
type served struct {
	Serving
	// taken: the sidecar lets the worker serve the run; what registers again names it then.
	// Guarded by the worker's mutex.
	taken bool
	// over gets why the worker serves it no more.
	over chan ending
}

// ending is why a run is served no more: what the sidecar says, or a mistake of the program.
type ending struct {
	cause   pawlv1.UnservedCause
	mistake error
}

// end says why the run is served no more; the first word counts.
func (r *served) end(why ending) {
	select {
	case r.over <- why:
	default:
	}
}

// reportError passes an error of a function of the run, or of its answer, to OnError.
func (r *served) reportError(err error) {
	if r != nil && r.OnError != nil {
		r.OnError(err)
	}
}

// Serve executes a run of EXECUTION_CALLER until it ends or waits for something from outside:
// true says that it has ended. [Worker.Run] must be running. It goes on over lost connections.
// When ctx ends it gives the run up and returns the error of ctx; turns that are under way are
// stopped, and another worker may go on with the run.
//
// A mistake of the program ends the serving at once, and no attempt of the turn is used up: a prompt
// without function (ErrNoTurnFunc), a completion with an event or an artifact that the state does not
// have, or with an artifact of another type.
//
// Errors: ErrServed, ErrTakenOver, ErrNotServed, ErrNoTurnFunc, ErrStopped, those of ServeRun and of a
// completion with a mistake, that of ctx.
func (w *Worker) Serve(ctx context.Context, runID string, with Serving) (ended bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-w.ended:
			cancel(ErrStopped)
		case <-ctx.Done():
		}
	}()
	run := &served{Serving: with, over: make(chan ending, 1)}
	w.mu.Lock()
	if w.served[runID] != nil {
		w.mu.Unlock()
		return false, ErrServed
	}
	w.served[runID] = run
	w.mu.Unlock()
	defer w.unserve(runID)
	if err := w.begin(ctx, runID, run); err != nil {
		if ctx.Err() != nil {
			w.release(runID) // The request may take effect all the same.
			err = context.Cause(ctx)
		}
		return false, fmt.Errorf("serve run %s: %w", runID, err)
	}
	select {
	case why := <-run.over:
		if why.mistake != nil {
			w.release(runID)
			return false, fmt.Errorf("serve run %s: %w", runID, why.mistake)
		}
		switch why.cause {
		case pawlv1.UnservedCause_UNSERVED_CAUSE_RUN_ENDED:
			return true, nil
		case pawlv1.UnservedCause_UNSERVED_CAUSE_RUN_WAITING:
			return false, nil
		case pawlv1.UnservedCause_UNSERVED_CAUSE_TAKEN_OVER:
			return false, fmt.Errorf("serve run %s: %w", runID, ErrTakenOver)
		}
		return false, fmt.Errorf("serve run %s: %w", runID, ErrNotServed)
	case <-ctx.Done():
		w.release(runID)
		return false, context.Cause(ctx)
	}
}

// begin tells the sidecar that the worker serves the run.
func (w *Worker) begin(ctx context.Context, runID string, run *served) error {
	var last *session
	for {
		s, err := w.current(ctx, last)
		if err != nil {
			return err
		}
		_, err = s.call(ctx, &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_ServeRun{ServeRun: run.request(runID)}})
		if errors.Is(err, errSessionOver) {
			last = s
			continue
		}
		w.mu.Lock()
		run.taken = err == nil
		w.mu.Unlock()
		return err
	}
}

func (r *served) request(runID string) *pawlv1.ServeRun {
	return &pawlv1.ServeRun{RunId: runID, Tools: keys(r.Tools)}
}

func (w *Worker) unserve(runID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.served, runID)
}

// release gives a run up, and stops its turns.
func (w *Worker) release(runID string) {
	w.mu.Lock()
	s := w.session
	for _, t := range w.turns {
		if t.lease().GetRunId() == runID {
			t.cancel()
		}
	}
	w.mu.Unlock()
	if s != nil {
		_ = s.send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_ReleaseRun{ReleaseRun: &pawlv1.ReleaseRun{RunId: runID}}})
	}
}

// unserved hands on why the worker serves a run no more.
func (w *Worker) unserved(in *pawlv1.RunUnserved) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if run := w.served[in.GetRunId()]; run != nil {
		run.end(ending{cause: in.GetCause()})
	}
}

// servedRuns are the runs that the worker serves, for its registration. It is called under mu.
func (w *Worker) servedRuns() []*pawlv1.ServeRun {
	var all []*pawlv1.ServeRun
	for id, run := range w.served {
		if run.taken {
			all = append(all, run.request(id))
		}
	}
	return all
}

// turn finds what executes a turn of the run.
func (r *served) turn(prompt string) TurnFunc {
	if f := r.Prompts[prompt]; f != nil {
		return f
	}
	return r.Turn
}

// tool finds what executes a step of the run.
func (r *served) tool(name string) ToolFunc {
	if f := r.Tools[name]; f != nil {
		return f
	}
	return r.Tools["*"]
}
