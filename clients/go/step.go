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

// Step is one tool call that the worker executes.
type Step struct {
	// Assignment is the sidecar's message with the lease at that time. It never changes.
	Assignment *pawlv1.StepAssignment
	// stepLease is the current lease. It changes when the worker reconnects. The worker's mutex guards it.
	stepLease *pawlv1.StepLease
	w         *Worker
	cancel    context.CancelFunc
	// fn is the function that executes the step. run is set if fn belongs to a run that the worker
	// serves. In this case the step does not use the worker's capacity.
	fn  ToolFunc
	run *servedRun
	// usage is reported with the answer. If it is nil, the sidecar charges the cost that the pack
	// declares.
	usage *pawlv1.Usage
}

// IdempotencyKey returns "RUN/STEP". It is the same for every attempt of the call. A tool sends it to
// the systems that it changes, so that a repeated attempt has no second effect.
func (s *Step) IdempotencyKey() string { return s.Assignment.GetIdempotencyKey() }

// lease returns the current lease of the step. The caller holds the worker's mutex.
func (s *Step) lease() *pawlv1.StepLease { return s.stepLease }

// count stores the number of a received step, so that the sidecar does not send it again.
func (w *Worker) count(delivery uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = max(w.received, delivery)
}

// startStep executes a step in a new goroutine. It returns false if the worker has no function for the
// step. This happens, for example, after the run was released. If the worker starts no more functions,
// startStep does nothing and returns true. ctx ends with the stream, but the step does not.
func (w *Worker) startStep(ctx context.Context, a *pawlv1.StepAssignment) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.GetTimeout().AsDuration())
	st := &Step{Assignment: a, stepLease: a.GetLease(), w: w, cancel: cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	if st.fn, st.run = w.toolFunc(a.GetLease()); w.noNewWork || st.fn == nil {
		cancel()
		return w.noNewWork
	}
	w.steps[a.GetLease().GetToken()] = st
	w.execute(func() {
		defer cancel()
		st.execute(ctx)
	})
	return true
}

func (s *Step) execute(ctx context.Context) {
	result, err := s.fn(ctx, s)
	if err == nil && !utf8.Valid(result) {
		// Invalid UTF-8 would end the stream, and the other requests in the same message would be lost.
		err = refused(&Failure{Code: "INVALID_UTF8", Message: "result: is not UTF-8"})
	}
	if ctx.Err() == nil {
		if err != nil {
			s.reportError(err)
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

// toolFunc returns the function for a step. If the function belongs to a run that the worker serves, it
// also returns the run. do is nil if there is no function. The caller holds mu.
func (w *Worker) toolFunc(lease *pawlv1.StepLease) (do ToolFunc, of *servedRun) {
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

// report sends the step's answer. It repeats the answer after a broken connection and when the sidecar
// requests a retry, because a step without an answer gets the status UNKNOWN. If the sidecar
// permanently refuses a result, report sends an error with an unknown outcome instead, because the call
// was made.
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
			s.reportError(failed)
		default:
			return
		}
	}
}

// reportError passes an error to OnError of the worker, and of the run if the worker serves it.
func (s *Step) reportError(err error) {
	s.w.reportError(err)
	s.run.reportError(err)
}

// comeBack returns the pause before a retry that the sidecar requests. It returns 0 if no retry is
// requested.
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

// refused returns the error for a step whose result the sidecar refuses. The call was made, so its
// outcome is unknown.
func refused(why error) *Failure {
	fault, _, _ := faultOf(why)
	return &Failure{Code: fault.GetCode(), Message: "the result was refused: " + status.Convert(why).Message(), Unknown: true}
}

// unknown reports whether the call may have changed other systems.
func unknown(failed error) bool {
	failure, ok := errors.AsType[*Failure](failed)
	return ok && failure.Unknown
}

// SetUsage sets the consumption of the step. It is reported with the answer. Without it, the sidecar
// charges the maximum cost that the pack declares.
func (s *Step) SetUsage(usage *pawlv1.Usage) { s.usage = usage }
