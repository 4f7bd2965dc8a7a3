package grpcapi

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

// startWith starts a run of the loop pack with more of Pawl's own keys.
func (r *rig) startWith(ctx context.Context, keys string, execution pawlv1.Execution) *pawlv1.StartRunResponse {
	r.t.Helper()
	content := strings.Replace(string(loopPack), `"x_pawl": {`, `"x_pawl": {`+keys+`, `, 1)
	if _, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(content)}); err != nil {
		r.t.Fatal(err)
	}
	req := startRequest()
	req.Execution = execution
	started, err := r.runs.StartRun(ctx, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return started
}

func (r *rig) refetchTurn(ctx context.Context, turn *pawlv1.TurnRef) *pawlv1.TurnRef {
	r.t.Helper()
	view, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	if err != nil {
		r.t.Fatal(err)
	}
	return view.GetTurn()
}

func (r *rig) tokens(ctx context.Context, run string) int64 {
	r.t.Helper()
	got, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run})
	if err != nil {
		r.t.Fatal(err)
	}
	return got.GetRun().GetTokens()
}

func (r *rig) seq(ctx context.Context, run string) uint64 {
	r.t.Helper()
	got, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run})
	if err != nil {
		r.t.Fatal(err)
	}
	return got.GetRun().GetSeq()
}

func modelRequestOf(text string) *pawlv1.ModelRequest {
	return &pawlv1.ModelRequest{Model: "gpt", Messages: []*pawlv1.ModelMessage{userMessage(text)}}
}

func modelFailure(turn *pawlv1.TurnRef, step *pawlv1.Step, code string, after time.Duration) *pawlv1.AnswerModelRequest {
	out := modelAnswer(turn, step, nil)
	failure := &pawlv1.ModelFailure{Error: &pawlv1.Fault{Code: code}}
	if after > 0 {
		failure.RetryAfter = durationpb.New(after)
	}
	out.Outcome = &pawlv1.AnswerModelRequest_Failure{Failure: failure}
	return out
}

const (
	ignoredStale    = pawlv1.Disposition_DISPOSITION_IGNORED_STALE
	ignoredTerminal = pawlv1.Disposition_DISPOSITION_IGNORED_TERMINAL
	stepPending     = pawlv1.StepStatus_STEP_STATUS_PENDING
	stepError       = pawlv1.StepStatus_STEP_STATUS_ERROR
)

// TestLateUsage: the usage of a lost call is counted once, no matter when and how often it is reported. This
// holds after the end of the run too, and for a token that the sidecar no longer knows.
func TestLateUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lose func(*rig, context.Context, *pawlv1.TurnRef)
		want pawlv1.Disposition
	}{
		{"the round is another execution's", func(r *rig, ctx context.Context, turn *pawlv1.TurnRef) {
			r.askModel(ctx, r.refetchTurn(ctx, turn), 1, modelRequestOf("go"))
		}, ignoredStale},
		{"the run moved on", func(r *rig, ctx context.Context, turn *pawlv1.TurnRef) { r.emit(ctx, turn, "Again") }, ignoredStale},
		{"the run moved on, twice", func(r *rig, ctx context.Context, turn *pawlv1.TurnRef) {
			r.emit(ctx, r.emit(ctx, turn, "Again").GetTurn(), "Again")
		}, ignoredStale},
		{"the run was cancelled", func(r *rig, ctx context.Context, turn *pawlv1.TurnRef) {
			if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: turn.GetRunId()}); err != nil {
				r.t.Fatal(err)
			}
		}, ignoredTerminal},
		{"the run is paused", func(r *rig, ctx context.Context, turn *pawlv1.TurnRef) {
			r.askModel(ctx, r.refetchTurn(ctx, turn), 1, modelRequestOf("go"))
			if _, err := r.runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: turn.GetRunId()}); err != nil {
				r.t.Fatal(err)
			}
		}, ignoredStale},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, ctx := newRig(t), testContext(t)
			turn := r.start(ctx).GetTurn()
			step := r.askModel(ctx, turn, 1, modelRequestOf("go")).GetStep()
			tt.lose(r, ctx, turn)
			for i := range 3 {
				got, err := r.runs.AnswerModel(ctx, modelAnswer(turn, step, spoken("late")))
				if err != nil || got.GetDisposition() != tt.want || got.GetDuplicate() != (i > 0) ||
					got.GetRecord().GetModelUpdated().GetUsage().GetInputTokens() != 100 {
					t.Fatalf("told for the %d. time: %v, %v", i+1, got, err)
				}
			}
			if n := r.tokens(ctx, turn.GetRunId()); n != 110 {
				t.Errorf("%d tokens", n)
			}
		})
	}
}

// TestARepeatBehindTheTurn: an answer that came in time was counted then. If it is sent again after the turn,
// it is a duplicate and is not counted again.
func TestARepeatBehindTheTurn(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	step := r.askModel(ctx, turn, 1, modelRequestOf("go")).GetStep()
	r.answerModel(ctx, turn, step, spoken("yes"))
	r.emit(ctx, turn, "Again")
	got, err := r.runs.AnswerModel(ctx, modelAnswer(turn, step, spoken("yes")))
	if err != nil || !got.GetDuplicate() || got.GetDisposition() != pawlv1.Disposition_DISPOSITION_ACCEPTED {
		t.Fatalf("told again: %v, %v", got, err)
	}
	if n := r.tokens(ctx, turn.GetRunId()); n != 110 {
		t.Errorf("%d tokens", n)
	}
}

// TestAFencedExecutionAnswers: an execution that has lost its turn may still answer a round that the new
// execution has not yet requested. The new execution then gets this answer.
func TestAFencedExecutionAnswers(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	step := r.askModel(ctx, turn, 1, modelRequestOf("go")).GetStep()
	again := r.refetchTurn(ctx, turn)
	r.answerModel(ctx, turn, step, spoken("yes"))
	if got := r.askModel(ctx, again, 1, modelRequestOf("go")); !got.GetReplayed() || got.GetStep().GetModel().GetAnswer().GetParts()[0].GetText() != "yes" {
		t.Errorf("asked again: %v", got)
	}
}

// TestModelsOverStreams: a round over a worker's stream.
func TestModelsOverStreams(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	if _, err := r.runs.StartRun(ctx, func() *pawlv1.StartRunRequest {
		req := startRequest()
		req.Execution = pawlv1.Execution_EXECUTION_WORKERS
		return req
	}()); err != nil {
		t.Fatal(err)
	}
	h := r.registerWorker(ctx, registration("w"))
	lease := h.turn().GetLease()
	ref := &pawlv1.TurnRef{RunId: lease.GetRunId(), TurnSeq: lease.GetTurnSeq(), Attempt: lease.GetAttempt(), Token: lease.GetToken()}
	receipt, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_RequestModel{RequestModel: modelRequest(ref, 1, modelRequestOf("go"))}})
	if err != nil || receipt.GetRequestModel().GetStep().GetStatus() != stepPending {
		t.Fatalf("asked by a worker: %v, %v", receipt, err)
	}
	step := receipt.GetRequestModel().GetStep()
	receipt, err = h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_AnswerModel{AnswerModel: modelAnswer(ref, step, spoken("yes"))}})
	if err != nil || receipt.GetAnswerModel().GetRecord().GetStepResolved().GetWorker() != "w" {
		t.Fatalf("answered by a worker: %v, %v", receipt, err)
	}
	// The run ends while the worker has its turn. The usage that the worker reports after that is counted.
	receipt, err = h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_RequestModel{RequestModel: modelRequest(ref, 2, modelRequestOf("go on"))}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: lease.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	late := modelAnswer(ref, receipt.GetRequestModel().GetStep(), spoken("late"))
	receipt, err = h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_AnswerModel{AnswerModel: late}})
	if err != nil || receipt.GetAnswerModel().GetDisposition() != ignoredTerminal || r.tokens(ctx, lease.GetRunId()) != 220 {
		t.Fatalf("told late by a worker: %v, %v", receipt, err)
	}
}

// TestResponseIDs: the next execution gets the response id that the one before noted, unless it makes another
// request. If a recorded answer is for another request, the step and the record say so.
func TestResponseIDs(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	step := r.askModel(ctx, turn, 1, modelRequestOf("go")).GetStep()
	note := func(turn *pawlv1.TurnRef, attempt int32, id string) *pawlv1.UpdateModelCallResponse {
		got, err := r.runs.UpdateModelCall(ctx, &pawlv1.UpdateModelCallRequest{RunId: turn.GetRunId(), Step: step.GetStep(), Attempt: attempt, TurnToken: turn.GetToken(), ResponseId: id})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, want := range []pawlv1.Disposition{pawlv1.Disposition_DISPOSITION_ACCEPTED, pawlv1.Disposition_DISPOSITION_IGNORED_DUPLICATE} {
		if got := note(turn, 1, "resp_1"); got.GetDisposition() != want {
			t.Fatalf("noted: %v, want %v", got, want)
		}
	}
	two := r.refetchTurn(ctx, turn)
	got := r.askModel(ctx, two, 1, modelRequestOf("go")).GetStep()
	if got.GetModel().GetResponseId() != "resp_1" || got.GetAttempt() != 2 || got.GetModel().GetRequestChanged() {
		t.Fatalf("the next execution: %v", got)
	}
	three := r.refetchTurn(ctx, turn)
	got = r.askModel(ctx, three, 1, modelRequestOf("something else")).GetStep()
	if got.GetModel().GetResponseId() != "" || got.GetAttempt() != 3 {
		t.Fatalf("another request: %v", got)
	}
	r.answerModel(ctx, three, got, spoken("yes"))
	four := r.refetchTurn(ctx, turn)
	if got := r.askModel(ctx, four, 1, modelRequestOf("a third thing")); !got.GetReplayed() || !got.GetStep().GetModel().GetRequestChanged() {
		t.Fatalf("a request that changed: %v", got)
	}
	seq := r.seq(ctx, turn.GetRunId())
	r.askModel(ctx, r.refetchTurn(ctx, turn), 1, modelRequestOf("a fourth thing"))
	if now := r.seq(ctx, turn.GetRunId()); now != seq {
		t.Errorf("said again, by records %d to %d", seq+1, now)
	}
	list, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: turn.GetRunId(), Kinds: []pawlv1.RecordKind{
		pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED, pawlv1.RecordKind_RECORD_KIND_MODEL_UPDATED,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var requested, noted int
	for _, rec := range list.GetRecords() {
		if rec.GetStepRequested().GetRequestChanged() {
			requested++
		}
		if rec.GetModelUpdated().GetRequestChanged() {
			noted++
		}
	}
	if requested != 1 || noted != 1 {
		t.Errorf("%d requests and %d notes say that it changed", requested, noted)
	}
	shown, err := r.runs.GetModelStep(ctx, &pawlv1.GetModelStepRequest{RunId: turn.GetRunId(), Step: step.GetStep()})
	if err != nil || shown.GetMessages()[0].GetParts()[0].GetText() != "something else" {
		t.Errorf("what was answered is shown as %v, %v", shown, err)
	}
}

// TestSaid: when a turn completes, the messages through its MODEL step join the conversation.
func TestSaid(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	step := r.askModel(ctx, turn, 1, modelRequestOf("go")).GetStep()
	complete := &pawlv1.CompleteTurnRequest{RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), ConversationThroughStep: step.GetStep(), Event: "Again"}
	_, err := r.runs.CompleteTurn(ctx, complete)
	wantError(t, err, codes.FailedPrecondition, "STEP_NOT_ANSWERED")
	r.answerModel(ctx, turn, step, spoken("yes"))
	if _, err := r.runs.CompleteTurn(ctx, complete); err != nil {
		t.Fatal(err)
	}
	view, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, m := range view.GetMessages() {
		words = append(words, m.GetRole()+":"+m.GetParts()[0].GetText())
	}
	if got := strings.Join(words, " "); got != "user:go assistant:yes" {
		t.Errorf("the conversation is %q", got)
	}
}

// TestTheTimeOfACall: if the time of a call is over, its execution is over too, and the next one is offered.
func TestTheTimeOfACall(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.startWith(ctx, `"model_calls": {"timeout_sec": 5}`, pawlv1.Execution_EXECUTION_CALLER).GetTurn()
	step := r.askModel(ctx, turn, 1, modelRequestOf("go")).GetStep()
	r.loop()
	r.clock.AwaitAlarm(5 * time.Second)
	r.clock.Advance(5 * time.Second)
	if _, err := r.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: turn.GetRunId(), Until: pawlv1.WaitUntil_WAIT_UNTIL_WAITING}); err != nil {
		t.Fatal(err)
	}
	got, err := r.runs.AnswerModel(ctx, modelAnswer(turn, step, spoken("late")))
	if err != nil || got.GetDisposition() != ignoredStale || r.tokens(ctx, turn.GetRunId()) != 110 {
		t.Fatalf("a late answer: %v, %v", got, err)
	}
	again := r.refetchTurn(ctx, turn)
	if again.GetAttempt() != 2 {
		t.Fatalf("the turn after it: %v", again)
	}
	if got := r.askModel(ctx, again, 1, modelRequestOf("go")).GetStep(); got.GetAttempt() != 2 || got.GetStatus() != stepPending {
		t.Errorf("the round after it: %v", got)
	}
}

// TestFailuresOfModels: the next attempt waits as long as the provider asks, up to the pack's longest pause,
// until the attempts are used up. A code that the pack names as final is final.
func TestFailuresOfModels(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.startWith(ctx, `"model_calls": {"retry": {"max_attempts": 3, "initial_sec": 1, "max_sec": 20, "jitter": 0, "non_retryable": ["BAD"]}}`, pawlv1.Execution_EXECUTION_CALLER).GetTurn()
	step := r.askModel(ctx, turn, 1, modelRequestOf("go")).GetStep()
	for i, want := range []struct{ after, wait time.Duration }{{0, time.Second}, {time.Hour, 20 * time.Second}, {0, 0}} {
		step.Attempt = int32(i + 1)
		got, err := r.runs.AnswerModel(ctx, modelFailure(turn, step, "BUSY", want.after))
		next := int32(i + 2)
		if want.wait == 0 {
			next = 0
		}
		if err != nil || got.GetNext() != next || got.GetWait().AsDuration() != want.wait {
			t.Fatalf("failure %d: %v, %v", i+1, got, err)
		}
	}
	if got := r.askModel(ctx, turn, 1, modelRequestOf("go")).GetStep(); got.GetStatus() != stepError || got.GetError().GetCode() != "BUSY" {
		t.Errorf("used up: %v", got)
	}
	two := r.askModel(ctx, turn, 2, modelRequestOf("go")).GetStep()
	got, err := r.runs.AnswerModel(ctx, modelFailure(turn, two, "BAD", time.Second))
	if err != nil || got.GetNext() != 0 {
		t.Errorf("a final code: %v, %v", got, err)
	}
	if n := r.tokens(ctx, turn.GetRunId()); n != 440 {
		t.Errorf("%d tokens", n)
	}
}

// TestBoundsOfPendingCalls: the sum of what pending calls may use must fit, or the run ends.
func TestBoundsOfPendingCalls(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.startWith(ctx, `"max_tokens": 1000`, pawlv1.Execution_EXECUTION_CALLER).GetTurn()
	ask := func(key string, bound int64) *pawlv1.RequestModelResponse {
		req := modelRequest(turn, 1, modelRequestOf("go"))
		req.Key, req.Bound = key, &pawlv1.Usage{OutputTokens: bound}
		got, err := r.runs.RequestModel(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask("a", 600); got.GetRemaining().GetTokens() != 400 {
		t.Fatalf("the first: %v", got)
	}
	if got := ask("b", 400); got.GetDenial() != nil || got.GetRemaining().GetTokens() != 0 {
		t.Fatalf("the second: %v", got)
	}
	got := ask("c", 1)
	if got.GetDenial().GetCode() != "MAX_TOKENS" || got.GetEnded().GetEnded().GetReason() != "max_tokens" || got.GetStep() != nil {
		t.Fatalf("the third: %v", got)
	}
}

// TestSensitiveModels: a principal without the scope for sensitive values cannot read what was said to a model
// or by it.
func TestSensitiveModels(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	driver := withToken(ctx, "driver")
	turn := r.startWith(driver, `"sensitive": {"messages": true}`, pawlv1.Execution_EXECUTION_CALLER).GetTurn()
	step := r.askModel(driver, turn, 1, modelRequestOf("s3cret")).GetStep()
	r.answerModel(driver, turn, step, spoken("s3cret", `{"path":"s3cret"}`))
	shown, err := r.runs.GetModelStep(withToken(ctx, "runs:read"), &pawlv1.GetModelStepRequest{RunId: turn.GetRunId(), Step: step.GetStep()})
	if err != nil || !shown.GetRedacted() || strings.Contains(shown.String(), "s3cret") {
		t.Errorf("a reader is shown %v, %v", shown, err)
	}
	shown, err = r.runs.GetModelStep(withToken(ctx, "admin"), &pawlv1.GetModelStepRequest{RunId: turn.GetRunId(), Step: step.GetStep()})
	if err != nil || !strings.Contains(shown.String(), "s3cret") {
		t.Errorf("the administrator is shown %v, %v", shown, err)
	}
}

// TestBadModels: a bad request or answer gets a typed error and changes nothing.
func TestBadModels(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, func(_ *Config, c *services.Config) { c.Limits.MaxMessageBytes = 3 << 20 }), testContext(t)
	turn := r.startWith(ctx, `"max_cost_usd": 1`, pawlv1.Execution_EXECUTION_CALLER).GetTurn()
	_, err := r.runs.RequestModel(ctx, modelRequest(turn, 1, &pawlv1.ModelRequest{Model: "nobody-serves-it", Messages: []*pawlv1.ModelMessage{userMessage("go")}}))
	wantError(t, err, codes.FailedPrecondition, "MODEL_UNPRICED")
	ask := modelRequest(turn, 1, modelRequestOf("go"))
	ask.Bound = &pawlv1.Usage{OutputTokens: 10, CostMicroUsd: 10}
	got, err := r.runs.RequestModel(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	step, most := got.GetStep(), got.GetMaxAnswerBytes()
	again := r.refetchTurn(ctx, turn)
	ask = modelRequest(again, 1, modelRequestOf("go"))
	ask.Bound = &pawlv1.Usage{OutputTokens: 10, CostMicroUsd: 10}
	if _, err := r.runs.RequestModel(ctx, ask); err != nil {
		t.Fatal(err)
	}
	seq := r.seq(ctx, turn.GetRunId())
	of := func(turn *pawlv1.TurnRef, attempt int32, change func(*pawlv1.AnswerModelRequest)) *pawlv1.AnswerModelRequest {
		out := modelAnswer(turn, &pawlv1.Step{Step: step.GetStep(), Attempt: attempt}, spoken("yes"))
		out.Usage.CostMicroUsd = 1
		if change != nil {
			change(out)
		}
		return out
	}
	for name, tt := range map[string]struct {
		req    *pawlv1.AnswerModelRequest
		code   codes.Code
		reason string
	}{
		"of another execution": {of(turn, 2, nil), codes.PermissionDenied, "STEP_NOT_HELD"},
		"never made":           {of(again, 3, nil), codes.InvalidArgument, "NO_SUCH_ATTEMPT"},
		"no such step":         {of(again, 2, func(a *pawlv1.AnswerModelRequest) { a.Step = 9 }), codes.NotFound, "STEP_NOT_FOUND"},
		"without a token":      {of(again, 2, func(a *pawlv1.AnswerModelRequest) { a.TurnToken = "" }), codes.PermissionDenied, "TURN_TOKEN_REQUIRED"},
		"too large": {of(again, 2, func(a *pawlv1.AnswerModelRequest) {
			a.GetAnswer().Parts[0] = &pawlv1.Part{Content: &pawlv1.Part_Text{Text: strings.Repeat("x", int(most)+1)}}
		}), codes.ResourceExhausted, "ANSWER_TOO_LARGE"},
		"JSON that is none": {of(again, 2, func(a *pawlv1.AnswerModelRequest) { a.GetAnswer().ProviderJson = "{" }), codes.InvalidArgument, "INVALID_JSON"},
		"unpriced":          {of(again, 2, func(a *pawlv1.AnswerModelRequest) { a.Usage.CostMicroUsd = 0 }), codes.FailedPrecondition, "MODEL_UNPRICED"},
	} {
		if _, err := r.runs.AnswerModel(ctx, tt.req); status.Code(err) != tt.code {
			t.Errorf("%s: %v, want %s %s", name, err, tt.code, tt.reason)
		} else {
			wantError(t, err, tt.code, tt.reason)
		}
	}
	if now := r.seq(ctx, turn.GetRunId()); now != seq {
		t.Errorf("bad input made records %d to %d", seq+1, now)
	}
	// If the arguments are no JSON, or name a tool that does not exist, they are kept as the model wrote them.
	// Its reasoning is kept too, up to the limit.
	answer := spoken("yes", `{"path":`)
	answer.Calls[0].Name = "no_such_tool"
	answer.ProviderJson = `"` + strings.Repeat("t", int(most)-200) + `"`
	good := of(again, 2, nil)
	good.Outcome = &pawlv1.AnswerModelRequest_Answer{Answer: answer}
	if _, err := r.runs.AnswerModel(ctx, good); err != nil {
		t.Fatal(err)
	}
	outcome, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: again.GetTurnSeq(), Attempt: again.GetAttempt(), TurnToken: again.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "no_such_tool", PayloadJson: "{}", Call: &pawlv1.ToolCallRef{ModelStep: step.GetStep()}}},
	})
	if err != nil || outcome.GetOutcomes()[0].GetDenial().GetCode() != "TOOL_NOT_LISTED" {
		t.Errorf("an unknown tool: %v, %v", outcome, err)
	}
	_, err = r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: again.GetTurnSeq(), Attempt: again.GetAttempt(), TurnToken: again.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: `{"path":`, Call: &pawlv1.ToolCallRef{ModelStep: step.GetStep()}}},
	})
	wantError(t, err, codes.InvalidArgument, "INVALID_JSON")
}
