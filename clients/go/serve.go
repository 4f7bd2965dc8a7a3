package pawl

import (
	"context"
	"errors"
	"fmt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Serving holds the functions that execute one run of EXECUTION_CALLER.
type Serving struct {
	// Turn executes the turns whose prompt is not in Prompts.
	Turn TurnFunc
	// Prompts are the functions of turns by prompt. Default: none.
	Prompts map[string]TurnFunc
	// Tools are the functions of steps by tool. "*" is for tools without a function. Other workers
	// execute the steps of the remaining tools. Default: none.
	Tools map[string]ToolFunc
	// OnError receives each error of a function of the run and each refused answer. Several goroutines
	// call it. A mistake of the program ends [Run.Serve] instead. Default: errors are dropped.
	OnError func(error)
}

// Errors of [Worker.Serve].
var (
	// ErrServed means that this worker already serves the run.
	ErrServed = errors.New("this worker serves the run already")
	// ErrTakenOver means that another worker serves the run now.
	ErrTakenOver = errors.New("another worker has taken the run over")
	// ErrNotServed means that the worker may no longer serve the run: the run was deleted, or the
	// principal lost its right to it.
	ErrNotServed = errors.New("the run is not this worker's to serve any more")
	// ErrNoTurnFunc means that the program has no function for a prompt of the run.
	ErrNoTurnFunc = errors.New("no function for the prompt")
	// ErrStopped means that [Worker.Run] has returned.
	ErrStopped = errors.New("the worker has stopped")
)

// served is a run that the worker serves.
type served struct {
	Serving
	// taken is true once the sidecar accepted the worker for the run. A new registration then names
	// the run. The worker's mutex guards it.
	taken bool
	// over receives the reason for the end of serving. Its capacity is 1.
	over chan ending
}

// ending is why the worker stopped serving a run: the sidecar's cause, or a mistake of the program.
type ending struct {
	cause   pawlv1.UnservedCause
	mistake error
}

// end ends the serving of the run. Only the first call has an effect.
func (r *served) end(why ending) {
	select {
	case r.over <- why:
	default:
	}
}

// reportError passes an error of a function of the run, or of a refused answer, to OnError.
func (r *served) reportError(err error) {
	if r != nil && r.OnError != nil {
		r.OnError(err)
	}
}

// Serve executes a run of EXECUTION_CALLER until it ends or waits for an outside event. It returns
// true when the run has ended. [Worker.Run] must be running. Serve continues over lost connections.
// When ctx ends, it stops the run's turns, releases the run and returns the error of ctx. Another
// worker can then continue the run.
//
// A mistake of the program ends Serve at once and uses up no attempt of the turn: a prompt without a
// function (ErrNoTurnFunc), a completion with an event or an artifact that the state does not have, or
// with an artifact of another type.
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

// begin asks the sidecar to let the worker serve the run.
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

// release stops the run's turns and returns the run to the sidecar.
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

// unserved ends the serving of a run with the sidecar's cause.
func (w *Worker) unserved(in *pawlv1.RunUnserved) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if run := w.served[in.GetRunId()]; run != nil {
		run.end(ending{cause: in.GetCause()})
	}
}

// servedRuns returns the runs that the worker serves, for its registration. The caller holds mu.
func (w *Worker) servedRuns() []*pawlv1.ServeRun {
	var all []*pawlv1.ServeRun
	for id, run := range w.served {
		if run.taken {
			all = append(all, run.request(id))
		}
	}
	return all
}

// turn returns the function for a turn of the run, or nil.
func (r *served) turn(prompt string) TurnFunc {
	if f := r.Prompts[prompt]; f != nil {
		return f
	}
	return r.Turn
}

// tool returns the function for a step of the run, or nil.
func (r *served) tool(name string) ToolFunc {
	if f := r.Tools[name]; f != nil {
		return f
	}
	return r.Tools["*"]
}
