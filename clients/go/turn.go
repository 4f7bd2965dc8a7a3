package pawl

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Turn is one turn that the worker executes. Several goroutines may call Step at the same time.
type Turn struct {
	// Assignment is the sidecar's message with the lease at that time. It never changes.
	Assignment *pawlv1.TurnAssignment
	w          *Worker
	cancel     context.CancelFunc
	// fn is the function that executes the turn. run is set if the worker serves the turn's run. In
	// this case the turn does not use the worker's capacity.
	fn  TurnFunc
	run *servedRun
	// The worker's mutex guards all fields below.
	//
	// turnLease is the current lease. It changes when the worker reconnects.
	turnLease *pawlv1.TurnLease
	requests  int
	// answered is the MODEL step of the last model call. It is 0 while that call has no answer, and if it
	// failed.
	answered uint32
	answers  map[uint32]*pawlv1.Step
	// changed is closed and replaced when answers come.
	changed chan struct{}
	output  int64
}

// Token returns the turn token for calls of RunService. The token changes when the worker reconnects,
// so Token must be called before each of these calls.
func (t *Turn) Token() string {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	return t.lease().GetToken()
}

// lease returns the current lease of the turn. The caller holds the worker's mutex.
func (t *Turn) lease() *pawlv1.TurnLease { return t.turnLease }

// startTurn executes a turn in a new goroutine. It returns false if the worker has no function for the
// turn. This happens, for example, after the run was released. If the worker starts no more functions,
// startTurn does nothing and returns true. ctx ends with the stream, but the turn does not.
func (w *Worker) startTurn(ctx context.Context, a *pawlv1.TurnAssignment) bool {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &Turn{Assignment: a, turnLease: a.GetLease(), w: w, cancel: cancel, answers: make(map[uint32]*pawlv1.Step), changed: make(chan struct{})}
	for _, step := range a.GetTurn().GetSteps() {
		if step.GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
			t.answers[step.GetStep()] = step
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.fn, t.run = w.turnFunc(a)
	if w.noNewWork || t.fn == nil {
		cancel()
		return w.noNewWork
	}
	w.turns[a.GetLease().GetToken()] = t
	w.execute(func() {
		defer cancel()
		t.execute(ctx)
	})
	return true
}

func (t *Turn) execute(ctx context.Context) {
	done, err := t.fn(ctx, t)
	if ctx.Err() != nil {
		t.w.forget(t)
		return
	}
	switch {
	case err == nil:
		if err = t.complete(ctx, &done); t.run != nil && wrongCompletion(err) {
			t.endServing(err)
			return
		}
	case errors.Is(err, ErrSuspended):
		if err = t.suspend(ctx); err != nil && reasonOf(err) == "NOTHING_PENDING" {
			t.execute(ctx) // The last answer arrived before the suspension.
			return
		}
	}
	if err == nil {
		t.w.drop(t)
		return
	}
	if t.run != nil && errors.Is(err, ErrNoTurnFunc) {
		t.endServing(err)
		return
	}
	t.fail(ctx, err)
}

// endServing ends the serving of the run because of a mistake of the program. Another attempt would
// repeat the mistake.
func (t *Turn) endServing(mistake error) {
	t.run.end(ending{mistake: mistake})
	t.w.drop(t)
}

// wrongCompletion reports whether a completion was refused because of a name or type that the program
// chose.
func wrongCompletion(err error) bool {
	switch ReasonOf(err) {
	case "UNKNOWN_EVENT", "UNDECLARED_ARTIFACT", "DUPLICATE_ARTIFACT", "ARTIFACT_TYPE", "AWAIT_WITH_EVENT":
		return true
	}
	return false
}

// complete reports the turn as completed.
func (t *Turn) complete(ctx context.Context, done *Completion) error {
	_, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Credits: t.credit(), Item: &pawlv1.WorkRequest_CompleteTurn{CompleteTurn: &pawlv1.CompleteTurnRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
			Output: done.Output, Messages: done.Messages, Usage: done.Usage, Event: done.Event, Artifacts: done.Artifacts,
			Awaiting: done.Await, Reply: done.Reply, ConversationThroughStep: done.ConversationThroughStep,
		}}}
	})
	return err
}

// fail reports a failed execution, or a completion that was refused.
func (t *Turn) fail(ctx context.Context, cause error) {
	t.w.reportError(cause)
	t.run.reportError(cause)
	fault, final, reject := faultOf(cause)
	failure, ok := errors.AsType[*Failure](cause)
	rejects := ok && failure.RejectsAnswer && !final
	_, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_FailTurn{FailTurn: &pawlv1.FailTurnRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
			Error: fault, Retryable: !final, Reject: reject, RejectedStep: t.rejected(rejects),
		}}}
	})
	_ = err // A lost lease needs no report.
	t.w.forget(t)
}

// rejected returns the step whose answer a failure rejects. It returns 0 if no answer is rejected. The
// caller holds the worker's mutex.
func (t *Turn) rejected(rejects bool) uint32 {
	if !rejects {
		return 0
	}
	return t.answered
}

func faultOf(err error) (fault *pawlv1.Fault, final, reject bool) {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return bounded(failure.Code, failure.Message), failure.Final || failure.Reject, failure.Reject
	}
	reason := reasonOf(err)
	// A model without a price has none in the next attempt either.
	return bounded(reason, err.Error()), reason == "MODEL_UNPRICED", false
}

// These are the limits of a fault in the API, in bytes.
const (
	maxCode    = 128
	maxMessage = 16 << 10
)

// bounded returns a fault that is within the limits of the API. The sidecar would refuse a larger
// fault, and the turn or step would stay with a worker that has already finished it.
func bounded(code, message string) *pawlv1.Fault {
	clip := func(text string, limit int) string {
		return strings.ToValidUTF8(text[:min(len(text), limit)], "")
	}
	return &pawlv1.Fault{Code: cmp.Or(clip(code, maxCode), "ERROR"), Message: clip(message, maxMessage)}
}

// reasonOf returns the sidecar's reason for a refused request. For any other error it returns
// HANDLER_ERROR.
func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return "HANDLER_ERROR"
}

// ask sends a request with the current lease and waits for its receipt. If the connection breaks, it
// repeats the request.
func (t *Turn) ask(ctx context.Context, request func(*pawlv1.TurnLease) *pawlv1.WorkRequest) (*pawlv1.WorkReceipt, error) {
	var last *session
	for {
		s, err := t.w.current(ctx, last)
		if err != nil {
			return nil, err
		}
		t.w.mu.Lock()
		req := request(t.lease())
		t.w.mu.Unlock()
		r, err := s.call(ctx, req)
		if !errors.Is(err, errSessionOver) {
			return r, err
		}
		last = s
	}
}

// Step makes a durable tool call and returns its result as JSON. payload is JSON. The step is stored
// once for a visit and a key, so a repeated execution of the turn receives the same answer. If the tool
// failed or was refused, the error is a [*Failure] with Final: a TurnFunc that returns it ends the run
// as FAILED, because each attempt of the turn gets the recorded answer again.
func (t *Turn) Step(ctx context.Context, key, tool, payload string) (string, error) {
	r, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_RequestStep{RequestStep: &pawlv1.RequestStepRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
			Requests: []*pawlv1.StepRequest{{Key: key, Tool: tool, PayloadJson: payload}},
		}}}
	})
	if err != nil {
		return "", err
	}
	outcome := r.GetRequestStep().GetOutcomes()[0]
	if d := outcome.GetDenial(); d != nil {
		return "", &Failure{Code: d.GetCode(), Message: d.GetMessage(), Final: true}
	}
	t.w.mu.Lock()
	t.requests++
	t.w.mu.Unlock()
	step := outcome.GetStep()
	if step.GetStatus() == pawlv1.StepStatus_STEP_STATUS_PENDING {
		if step, err = t.answer(ctx, step.GetStep()); err != nil {
			return "", err
		}
	}
	if step.GetStatus() != pawlv1.StepStatus_STEP_STATUS_OK {
		return "", &Failure{Code: step.GetError().GetCode(), Message: step.GetError().GetMessage(), Unknown: step.GetUnknown(), Final: true}
	}
	return step.GetResultJson(), nil
}

// Write stores a piece of output as a record. Watchers of the run and of its A2A task receive it.
// Unlike a piece of Output, it is still available after a restart of the sidecar.
func (t *Turn) Write(ctx context.Context, piece *pawlv1.OutputPiece) error {
	// With the id, the sidecar recognizes a piece that is sent again after a broken connection.
	id := "write-" + rand.Text()
	_, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_WriteOutput{WriteOutput: &pawlv1.WriteOutputRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(), Piece: piece, RequestId: id,
		}}}
	})
	return err
}

// answer waits until step n is answered.
func (t *Turn) answer(ctx context.Context, n uint32) (*pawlv1.Step, error) {
	for {
		t.w.mu.Lock()
		step, news := t.answers[n], t.changed
		t.w.mu.Unlock()
		if step != nil {
			return step, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Output streams a piece of the turn's output to the run's watchers. It is not stored.
func (t *Turn) Output(ctx context.Context, text string) error { return t.show(ctx, text, false) }

// Reasoning streams a piece of the model's reasoning to the run's watchers, in order with Output. It is
// marked as reasoning. It is not part of the turn's output, and it is not stored.
func (t *Turn) Reasoning(ctx context.Context, text string) error { return t.show(ctx, text, true) }

func (t *Turn) show(ctx context.Context, text string, reasoning bool) error {
	s, err := t.w.current(ctx, nil)
	if err != nil {
		return err
	}
	t.w.mu.Lock()
	out := &pawlv1.WorkerOutput{Token: t.lease().GetToken(), Offset: t.output, Text: text, Reasoning: reasoning}
	t.output += int64(len(text))
	t.w.mu.Unlock()
	return s.send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Output{Output: out}})
}

// turnFunc returns the function for a turn. If the worker serves the turn's run, it also returns the
// run, and for a prompt without a function noTurnFunc. Otherwise do is nil if there is no function. The
// caller holds mu.
func (w *Worker) turnFunc(a *pawlv1.TurnAssignment) (do TurnFunc, of *servedRun) {
	if run := w.served[a.GetLease().GetRunId()]; run != nil {
		if do = run.turn(a.GetTurn().GetPrompt()); do == nil {
			do = noTurnFunc
		}
		return do, run
	}
	for _, f := range []TurnFunc{
		w.cfg.Prompts[a.GetTurn().GetPrompt()], w.cfg.Agents[a.GetAgent()], w.cfg.Prompts["*"], w.cfg.Agents["*"],
	} {
		if f != nil {
			return f, nil
		}
	}
	return nil, nil
}

func noTurnFunc(_ context.Context, t *Turn) (Completion, error) {
	return Completion{}, fmt.Errorf("%w %s", ErrNoTurnFunc, t.Assignment.GetTurn().GetPrompt())
}

// credit returns the credit that a finished turn frees. It is nil if the worker has stopped or serves
// the turn's run. The caller holds the worker's mutex.
func (t *Turn) credit() *pawlv1.WorkCredits {
	if t.w.stopped || t.run != nil {
		return nil
	}
	return &pawlv1.WorkCredits{Turns: 1}
}

// drop removes a turn. It returns no credit: the turn's last request has returned it, the turn used
// none, or forget returns it.
func (w *Worker) drop(t *Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.turns, t.lease().GetToken())
}

// forget removes a turn and returns its credit.
func (w *Worker) forget(t *Turn) {
	w.drop(t)
	w.mu.Lock()
	s, credits := w.session, t.credit()
	w.mu.Unlock()
	if s != nil && credits != nil {
		s.credits(1, 0)
	}
}

func (w *Worker) revoke(r *pawlv1.Revocation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.turns[r.GetTurn().GetToken()]; t != nil {
		t.cancel()
	}
	if st := w.steps[r.GetStep().GetToken()]; st != nil {
		st.cancel()
	}
}

// answered passes the answers of steps to the turn that waits for them.
func (w *Worker) answered(a *pawlv1.StepAnswers) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.turns {
		if l := t.lease(); l.GetRunId() != a.GetRunId() || l.GetTurnSeq() != a.GetTurnSeq() {
			continue
		}
		for _, step := range a.GetSteps() {
			t.answers[step.GetStep()] = step
		}
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// turnTokens returns the tokens of all turns that the worker holds.
func (w *Worker) turnTokens() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.turns))
}

func (w *Worker) leaseDurations() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	for _, t := range w.turns {
		all = append(all, t.lease().GetDuration().AsDuration())
	}
	return all
}

// extended stops the turns whose leases the sidecar reports as lost.
func (w *Worker) extended(in *pawlv1.LeaseExtension) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, token := range in.GetLost() {
		if t := w.turns[token]; t != nil {
			t.cancel()
		}
	}
}
