package pawl

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Step is a tool call that the worker makes.
type Step struct {
	// Assignment is what the sidecar sent, with the lease of that time. It never changes.
	Assignment *pawlv1.StepAssignment
	// held is the lease now: another one after the worker connected again. The worker's mutex guards it.
	held   *pawlv1.StepLease
	w      *Worker
	cancel context.CancelFunc
	// do executes it; run: the worker serves its run, and it takes none of its capacity; nil: not.
	do  ToolFunc
	run *served
	// usage is reported with the answer; nil: the sidecar takes the cost that the pack declares.
	usage *pawlv1.Usage
}

// IdempotencyKey is "RUN/STEP", the same for every attempt of the call: what the
// tool changes elsewhere is keyed by it, so that an attempt whose answer was lost,
// came too late or was an error has no second effect there.
func (s *Step) IdempotencyKey() string { return s.Assignment.GetIdempotencyKey() }

// lease is the step's; the worker's mutex must be held.
func (s *Step) lease() *pawlv1.StepLease { return s.held }

// count notes that a step came, whatever becomes of it: it is not sent again.
func (w *Worker) count(delivery uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = max(w.received, delivery)
}

// startStep executes a step in a goroutine of its own. False: nothing here executes it, and it was
// not begun: its run was given up meanwhile.
func (w *Worker) startStep(ctx context.Context, a *pawlv1.StepAssignment) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.GetTimeout().AsDuration())
	st := &Step{Assignment: a, held: a.GetLease(), w: w, cancel: cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	if st.do, st.run = w.toolFunc(a.GetLease()); w.over || st.do == nil {
		cancel()
		return w.over
	}
	w.steps[a.GetLease().GetToken()] = st
	w.execute(func() {
		defer cancel()
		st.execute(ctx)
	})
	return true
}

func (s *Step) execute(ctx context.Context) {
	result, err := s.do(ctx, s)
	if err == nil && !utf8.Valid(result) {
		// It would end the stream, with whatever else goes in its message.
		err = refused(&Failure{Code: "INVALID_UTF8", Message: "result: is not UTF-8"})
	}
	if ctx.Err() == nil {
		if err != nil {
			s.w.reportError(err)
			s.run.reportError(err)
		}
		s.report(ctx, string(result), err)
	}
	s.w.mu.Lock()
	delete(s.w.steps, s.lease().GetToken())
	session, stopped := s.w.session, s.w.stopped
	s.w.mu.Unlock()
	if session != nil && !stopped && s.run == nil {
		session.credits(0, 1)
	}
}

// toolFunc finds what executes a step, and its run if the worker serves it; nil: nothing does.
// It is called under mu.
func (w *Worker) toolFunc(lease *pawlv1.StepLease) (do ToolFunc, of *served) {
	if run := w.served[lease.GetRunId()]; run != nil {
		if do = run.tool(lease.GetTool()); do != nil {
			return do, run
		}
	}
	for _, f := range []ToolFunc{w.cfg.Tools[lease.GetTool()], w.cfg.Tools["*"]} {
		if f != nil {
			return f, nil
		}
	}
	return nil, nil
}

// report answers the step, again and again while the connection breaks on it and while the
// sidecar asks to come back: what the tool did it did, and a step that is not answered becomes
// unknown. A result that is refused for good is reported as an
// error of which nobody knows: the call did happen.
func (s *Step) report(ctx context.Context, result string, failed error) {
	var last *session
	for {
		session, err := s.w.current(ctx, last)
		if err != nil {
			return
		}
		_, err = session.call(ctx, s.answer(result, failed))
		switch {
		case errors.Is(err, errSessionOver):
			last = session
		case comeBack(err) > 0:
			if pause(ctx, comeBack(err)) != nil {
				return
			}
		case err != nil && failed == nil && ctx.Err() == nil:
			failed = refused(err)
			s.w.reportError(failed)
		default:
			return
		}
	}
}

// retryDelay is when the sidecar asks to repeat a request; 0 = it does not.
func comeBack(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return retry.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Step) answer(result string, failed error) *pawlv1.WorkRequest {
	s.w.mu.Lock()
	l := s.lease()
	s.w.mu.Unlock()
	req := &pawlv1.ResolveStepRequest{
		RunId: l.GetRunId(), Step: l.GetStep(), Tool: l.GetTool(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
	}
	if failed == nil {
		req.Answer = &pawlv1.ResolveStepRequest_ResultJson{ResultJson: result}
	} else {
		fault, final, _ := faultOf(failed)
		req.Answer, req.Unknown = &pawlv1.ResolveStepRequest_Error{Error: fault}, unknown(failed)
		req.NonRetryable = final && !req.GetUnknown()
	}
	req.Usage = s.usage
	return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_ResolveStep{ResolveStep: req}}
}

// refused returns the error of a step whose result the sidecar refuses. The call was made, so its
// outcome is unknown.
func refused(why error) *Failure {
	fault, _, _ := faultOf(why)
	return &Failure{Code: fault.GetCode(), Message: "the result was refused: " + status.Convert(why).Message(), Unknown: true}
}

// unknown reports whether what the call changes elsewhere may have happened.
func unknown(failed error) bool {
	failure, ok := errors.AsType[*Failure](failed)
	return ok && failure.Unknown
}

// SetUsage sets what the step consumed. It is reported with the answer. Without it the sidecar
// charges the maximum cost that the pack declares.
func (s *Step) SetUsage(usage *pawlv1.Usage) { s.usage = usage }
