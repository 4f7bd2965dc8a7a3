package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// fire starts the runs of the due instants (times at which a schedule fires) of one schedule. After an
// error, a later round tries again. By then, the instant may be too late and count as missed.
func (r *Scheduler) fire(ctx context.Context, e *entry) {
	p := e.plan(time.Unix(0, e.mark.After), r.cfg.Clock.Now())
	err := r.giveUp(ctx, e, &p)
	for i := 0; err == nil && i < len(p.fire); i++ {
		err = r.handleInstant(ctx, e, p.fire[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		e.fireTime, e.fault = p.fireTime, Fault{}
	case e.fault.Attempts == 0:
		// A shutdown is not recorded as a failure, so there is no pause after it. Without the pause that is set here,
		// the loop would repeat the instant at once until the process ends.
		e.fireTime = r.cfg.Clock.Now().Add(firstPause)
	}
}

// giveUp stores that instants of a schedule were missed and will not be fired.
func (r *Scheduler) giveUp(ctx context.Context, e *entry, p *plan) error {
	if p.missed == 0 {
		return nil
	}
	mark := e.mark
	mark.After, mark.Missed = p.upto.UnixNano(), mark.Missed+uint64(p.missed)
	if err := r.put(ctx, e, p.upto, mark); err != nil {
		return err
	}
	r.cfg.OnResult(Result{Schedule: e.Schedule, Outcome: Missed, Instant: p.upto, N: p.missed})
	return nil
}

// handleInstant handles one instant of a schedule: it starts the run of the instant, or skips the instant.
func (r *Scheduler) handleInstant(ctx context.Context, e *entry, instant time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	run, outcome, err := r.start(ctx, e, instant)
	if err != nil {
		return r.recordFailure(ctx, e, instant, err)
	}
	mark := e.mark
	mark.After = instant.UnixNano()
	if outcome == Skipped {
		mark.Skipped++
	} else {
		mark.Fired, mark.RunID, mark.At = mark.Fired+1, run, instant.UnixNano()
	}
	if err := r.put(ctx, e, instant, mark); err != nil {
		return err
	}
	r.cfg.OnResult(Result{Schedule: e.Schedule, Outcome: outcome, Instant: instant, N: 1, RunID: run})
	return nil
}

// start starts the run of an instant, or skips the instant. If a run was already started for the instant
// before a crash, it returns that run. The principal is stored before the start, so that findStarted looks for a run of
// this principal after a crash.
func (r *Scheduler) start(ctx context.Context, e *entry, instant time.Time) (run string, outcome Outcome, err error) {
	req := e.request(instant)
	run, begun, err := r.findStarted(ctx, e, e.mark.Principal, req.RequestID)
	if err != nil || begun {
		return run, Fired, err
	}
	if e.mark.Principal != req.Principal.Name() {
		mark := e.mark
		mark.Principal = req.Principal.Name()
		if err := r.cfg.Store.Put(ctx, mark); err != nil {
			return "", "", err
		}
		r.set(e, mark)
	}
	if err := r.cfg.Ready(); err != nil {
		return "", "", err
	}
	if over, err := r.mayStart(ctx, e); !over || err != nil {
		return "", Skipped, err
	}
	answer, err := r.cfg.Engine.StartRun(ctx, req)
	return answer.RunID, Fired, err
}

// findStarted returns the run that a principal has started with a request id, even if the run was
// deleted or erased in the meantime.
func (r *Scheduler) findStarted(ctx context.Context, e *entry, principal, id string) (run string, begun bool, err error) {
	row, begun, err := r.cfg.Used.FindRequestID(ctx, e.mark.Namespace, machine.Dedupe{
		Scope: machine.PerPrincipal, Kind: machine.CmdStart, Principal: principal, ID: id,
	})
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Code == machine.CodeFailedPrecondition {
		// The run was erased, so the values of its start request no longer exist. But the row proves
		// that there was a run.
		return row.RunID, true, nil
	}
	return row.RunID, begun, err
}

// mayStart reports whether the instant may start a run: either the schedule does not set Skip, or the
// previous run has ended.
func (r *Scheduler) mayStart(ctx context.Context, e *entry) (bool, error) {
	if !e.Skip || e.mark.RunID == "" {
		return true, nil
	}
	st, err := r.cfg.Engine.Head(ctx, runtime.RunKey{Namespace: e.mark.Namespace, ID: e.mark.RunID})
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Code == machine.CodeNotFound {
		return true, nil
	}
	return err == nil && st.Status.Terminal(), err
}

// put stores the progress of the schedule. An error counts as a failed attempt of the instant.
func (r *Scheduler) put(ctx context.Context, e *entry, instant time.Time, mark machine.ScheduleMark) error {
	if err := r.cfg.Store.Put(ctx, mark); err != nil {
		return r.recordFailure(ctx, e, instant, err)
	}
	r.set(e, mark)
	return nil
}

func (r *Scheduler) set(e *entry, mark machine.ScheduleMark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.mark = mark
}

// draining is the reason of errors that occur because the sidecar shuts down.
const draining = "DRAINING"

// recordFailure records a failed attempt of an instant and returns its error. An error that is only caused by a
// shutdown is not recorded.
func (r *Scheduler) recordFailure(ctx context.Context, e *entry, instant time.Time, err error) error {
	if refusal, ok := errors.AsType[*machine.Error](err); errors.Is(ctx.Err(), context.Canceled) || ok && refusal.Reason == draining {
		return err
	}
	r.mu.Lock()
	if !e.fault.Instant.Equal(instant) {
		e.fault = Fault{Instant: instant, Since: r.cfg.Clock.Now()}
	}
	e.fault.Attempts, e.fault.Err = e.fault.Attempts+1, err
	failed := e.fault.Attempts
	e.retryAt = r.cfg.Clock.Elapsed() + min(mostPause, firstPause<<min(failed-1, 10))
	r.mu.Unlock()
	r.cfg.OnResult(Result{Schedule: e.Schedule, Outcome: Failed, Instant: instant, N: 1, Err: err, Attempts: failed})
	return err
}
