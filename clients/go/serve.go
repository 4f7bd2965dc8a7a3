package pawl

import (
	"context"
	"errors"
	"fmt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Serving contains the functions that execute one run of EXECUTION_CALLER.
type Serving struct {
	// Turn is the function that executes the turns whose prompt is not in Prompts.
	Turn TurnFunc
	// Prompts maps a prompt to the function that executes its turns. Default: none.
	Prompts map[string]TurnFunc
	// Tools maps a tool to the function that executes its steps. "*" is for tools that have no function
	// of their own. The functions in [WorkerConfig.Tools] of this worker, or other workers, execute the
	// steps of the remaining tools. Default: none.
	Tools map[string]ToolFunc
	// OnError is called with each error of a function of the run, and with each refused answer. Several
	// goroutines may call it. A mistake of the program is not passed to it, but ends [Run.Serve]. An
	// error that a function returns after its context has ended is dropped.
	// Default: errors are dropped.
	OnError func(error)
}

// Errors of [Worker.Serve].
var (
	// ErrServed means that this worker already serves the run.
	ErrServed = errors.New("this worker serves the run already")
	// ErrTakenOver means that another worker serves the run now.
	ErrTakenOver = errors.New("another worker has taken the run over")
	// ErrNotServed means that the worker may no longer serve the run, because the run was deleted or
	// the principal lost its right to the run.
	ErrNotServed = errors.New("the run is not this worker's to serve any more")
	// ErrNoTurnFunc means that the program has no function for a prompt of the run.
	ErrNoTurnFunc = errors.New("no function for the prompt")
	// ErrStopped means that [Worker.Run] has returned.
	ErrStopped = errors.New("the worker has stopped")
)

// servedRun is a run that the worker serves.
type servedRun struct {
	Serving
	// taken is true after the sidecar has accepted the worker for the run. A new registration then
	// includes the run. The worker's mutex guards it.
	taken bool
	// ended receives the reason why the serving ended. Its capacity is 1.
	ended chan ending
}

// ending is the reason why the worker stopped serving a run. It is the sidecar's cause, or a mistake of
// the program.
type ending struct {
	cause   pawlv1.UnservedCause
	mistake error
}

// end ends the serving of the run. Only the first call has an effect.
func (r *servedRun) end(why ending) {
	select {
	case r.ended <- why:
	default:
	}
}

// reportError passes an error of a function of the run, or of a refused answer, to OnError. r is nil for
// the work of a run that the worker does not serve.
func (r *servedRun) reportError(err error) {
	if r != nil && r.OnError != nil {
		r.OnError(err)
	}
}

// Serve executes a run of EXECUTION_CALLER until it ends or waits for an outside event. It returns true
// if the run has ended. [Worker.Run] must be running. If the connection is lost, Serve continues over a
// new one. When ctx ends, it stops the run's turns, releases the run and returns the error of ctx.
// Another worker can then continue the run.
//
// A mistake of the program ends Serve immediately and does not use up an attempt of the turn. Mistakes
// are a prompt without a function (ErrNoTurnFunc), and a completion with an event or an artifact that
// the state does not have, or with an artifact of another type.
//
// Errors: ErrServed, ErrTakenOver, ErrNotServed, ErrNoTurnFunc, ErrStopped, the errors of ServeRun and
// of a completion with a mistake, and the error of ctx.
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
	run := &servedRun{Serving: with, ended: make(chan ending, 1)}
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
	case end := <-run.ended:
		if end.mistake != nil {
			w.release(runID)
			return false, fmt.Errorf("serve run %s: %w", runID, end.mistake)
		}
		switch end.cause {
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

// begin requests that the sidecar lets the worker serve the run.
func (w *Worker) begin(ctx context.Context, runID string, run *servedRun) error {
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

func (r *servedRun) request(runID string) *pawlv1.ServeRun {
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

// turn returns the function for a turn of the run. It returns nil if there is none.
func (r *servedRun) turn(prompt string) TurnFunc {
	if f := r.Prompts[prompt]; f != nil {
		return f
	}
	return r.Turn
}

// tool returns the function for a step of the run. It returns nil if there is none.
func (r *servedRun) tool(name string) ToolFunc {
	if f := r.Tools[name]; f != nil {
		return f
	}
	return r.Tools["*"]
}
