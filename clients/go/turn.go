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

// Turn is a turn that the worker executes.
type Turn struct {
	// Assignment is what the sidecar sent, with the lease of that time. It never changes.
	Assignment *pawlv1.TurnAssignment
	w          *Worker
	cancel     context.CancelFunc
	// do executes it; run: the worker serves its run, and it takes none of its capacity; nil: not.
	do  TurnFunc
	run *served
	// All below is guarded by the worker's mutex.
	//
	// held is the lease now: another one after the worker connected again.
	held     *pawlv1.TurnLease
	requests int
	// answered is the MODEL step of the last request to a model, once it is answered.
	answered uint32
	answers  map[uint32]*pawlv1.Step
	// news is closed and replaced when answers come.
	news   chan struct{}
	output int64
}

// Token is the turn's for calls of RunService. The worker has another one after it connected
// again: ask for it before each call.
func (t *Turn) Token() string {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	return t.lease().GetToken()
}

// lease is the turn's; the worker's mutex must be held.
func (t *Turn) lease() *pawlv1.TurnLease { return t.held }

// startTurn executes a turn in a goroutine of its own. False: nothing here executes it: its run was
// given up meanwhile.
func (w *Worker) startTurn(ctx context.Context, a *pawlv1.TurnAssignment) bool {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &Turn{Assignment: a, held: a.GetLease(), w: w, cancel: cancel, answers: make(map[uint32]*pawlv1.Step), news: make(chan struct{})}
	for _, step := range a.GetTurn().GetSteps() {
		if step.GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
			t.answers[step.GetStep()] = step
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.do, t.run = w.turnFunc(a)
	if w.over || t.do == nil {
		cancel()
		return w.over
	}
	w.turns[a.GetLease().GetToken()] = t
	w.execute(func() {
		defer cancel()
		t.execute(ctx)
	})
	return true
}

func (t *Turn) execute(ctx context.Context) {
	done, err := t.do(ctx, t)
	if ctx.Err() != nil {
		t.w.forget(t)
		return
	}
	switch {
	case err == nil:
		if err = t.complete(ctx, &done); t.run != nil && wrongCompletion(err) {
			t.mistaken(err)
			return
		}
	case errors.Is(err, ErrSuspended):
		if err = t.suspend(ctx); err != nil && reasonOf(err) == "NOTHING_PENDING" {
			t.execute(ctx) // the last answer came meanwhile
			return
		}
	}
	if err == nil {
		t.w.drop(t)
		return
	}
	if t.run != nil && errors.Is(err, ErrNoTurnFunc) {
		t.mistaken(err)
		return
	}
	t.fail(ctx, err)
}

// mistaken ends the serving of the run by a mistake of the program, which no further attempt mends.
func (t *Turn) mistaken(mistake error) {
	t.run.end(ending{mistake: mistake})
	t.w.drop(t)
}

// wrongCompletion tells whether a completion was refused for what the program says by name or type.
func wrongCompletion(err error) bool {
	switch ReasonOf(err) {
	case "UNKNOWN_EVENT", "UNDECLARED_ARTIFACT", "DUPLICATE_ARTIFACT", "ARTIFACT_TYPE", "AWAIT_WITH_EVENT":
		return true
	}
	return false
}

// complete ends the turn.
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
	_ = err // a lease that is lost needs no report
	t.w.forget(t)
}

// rejected is the answer that a failure rejects; the worker's mutex must be held.
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
	return bounded(reasonOf(err), err.Error()), false, false
}

// Most that the contract takes, bytes.
const (
	maxCode    = 128
	maxMessage = 16 << 10
)

// bounded is a fault that the sidecar takes, whatever the function said: one that it
// refused would leave the turn or step with a worker that is through with it.
func bounded(code, message string) *pawlv1.Fault {
	clip := func(text string, limit int) string {
		return strings.ToValidUTF8(text[:min(len(text), limit)], "")
	}
	return &pawlv1.Fault{Code: cmp.Or(clip(code, maxCode), "ERROR"), Message: clip(message, maxMessage)}
}

// reasonOf is the server's reason where it refused an answer.
func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return "HANDLER_ERROR"
}

// ask makes a request under the lease as it is, again and again while the
// connection breaks on it.
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

// Step makes a durable tool call and waits for its answer: exactly once in its
// visit under its key, however often the turn is executed. An error of the tool is
// a [*Failure].
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
		return "", &Failure{Code: d.GetCode(), Message: d.GetMessage()}
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
		return "", &Failure{Code: step.GetError().GetCode(), Message: step.GetError().GetMessage()}
	}
	return step.GetResultJson(), nil
}

// Write keeps a piece of output: a durable record, shown to whoever watches the
// run or its A2A task. Unlike Output it is not lost when the sidecar restarts.
func (t *Turn) Write(ctx context.Context, piece *pawlv1.OutputPiece) error {
	// The connection may break on the receipt: what is sent again is the same piece.
	id := "write-" + rand.Text()
	_, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_WriteOutput{WriteOutput: &pawlv1.WriteOutputRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(), Piece: piece, RequestId: id,
		}}}
	})
	return err
}

// answer waits for the answer of a step.
func (t *Turn) answer(ctx context.Context, n uint32) (*pawlv1.Step, error) {
	for {
		t.w.mu.Lock()
		step, news := t.answers[n], t.news
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

// Output tells those who watch the run a piece of the turn's output.
func (t *Turn) Output(ctx context.Context, text string) error { return t.show(ctx, text, false) }

// Reasoning tells those who watch the run a piece of what the model thinks: in order with
// Output, marked, and no part of the turn's output.
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

// turnFunc finds what executes a turn, and its run if the worker serves it; nil: it offers
// nothing for it and serves the run no more. It is called under mu.
func (w *Worker) turnFunc(a *pawlv1.TurnAssignment) (do TurnFunc, of *served) {
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

// credit is that for a turn which is done; none once the worker stops, and of a served run.
func (t *Turn) credit() *pawlv1.WorkCredits {
	if t.w.stopped || t.run != nil {
		return nil
	}
	return &pawlv1.WorkCredits{Turns: 1}
}

// drop forgets a turn whose credit was given back with its last request.
func (w *Worker) drop(t *Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.turns, t.lease().GetToken())
}

// forget forgets a turn and gives its credit back.
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

// answered hands answers to the turn that waits for them.
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
		close(t.news)
		t.news = make(chan struct{})
	}
}

// turnTokens are those of all turns that the worker has.
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

// extended stops the turns whose leases a heartbeat did not find.
func (w *Worker) extended(in *pawlv1.LeaseExtension) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, token := range in.GetLost() {
		if t := w.turns[token]; t != nil {
			t.cancel()
		}
	}
}
