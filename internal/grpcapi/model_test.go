package grpcapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// askModel asks for a round of a turn.
func (r *rig) askModel(ctx context.Context, turn *pawlv1.TurnRef, round int32, asked *pawlv1.ModelRequest) *pawlv1.RequestModelResponse {
	r.t.Helper()
	got, err := r.runs.RequestModel(ctx, modelRequest(turn, round, asked))
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func modelRequest(turn *pawlv1.TurnRef, round int32, asked *pawlv1.ModelRequest) *pawlv1.RequestModelRequest {
	return &pawlv1.RequestModelRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Round: round, Request: asked,
	}
}

// modelAnswer is an answer of a model with tool calls.
func spoken(text string, calls ...string) *pawlv1.ModelAnswer {
	out := &pawlv1.ModelAnswer{Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}}, FinishReason: "stop"}
	for i, arguments := range calls {
		out.Calls = append(out.Calls, &pawlv1.ModelCall{Id: fmt.Sprintf("call_%d", i), Name: "run_tests", Arguments: arguments})
	}
	return out
}

func modelAnswer(turn *pawlv1.TurnRef, step *pawlv1.Step, answer *pawlv1.ModelAnswer) *pawlv1.AnswerModelRequest {
	return &pawlv1.AnswerModelRequest{
		RunId: turn.GetRunId(), Step: step.GetStep(), Attempt: step.GetAttempt(), TurnToken: turn.GetToken(),
		Outcome: &pawlv1.AnswerModelRequest_Answer{Answer: answer}, Usage: &pawlv1.Usage{InputTokens: 100, OutputTokens: 10},
	}
}

func (r *rig) answerModel(ctx context.Context, turn *pawlv1.TurnRef, step *pawlv1.Step, answer *pawlv1.ModelAnswer) {
	r.t.Helper()
	got, err := r.runs.AnswerModel(ctx, modelAnswer(turn, step, answer))
	if err != nil || got.GetDisposition() != pawlv1.Disposition_DISPOSITION_ACCEPTED {
		r.t.Fatalf("AnswerModel %v, %v", got, err)
	}
}

func userMessage(text string) *pawlv1.ModelMessage {
	return &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Message{Message: &pawlv1.Message{
		Role: "user", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}},
	}}}
}

func resultOf(step uint32, call string) *pawlv1.ModelMessage {
	return &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Result{Result: &pawlv1.ToolResult{Step: step, CallId: call}}}
}

// TestARepeatedTurnIsAnsweredFromTheRecord: the model is asked once for each round, and the
// tool that it asked for is called once, however the turn is executed again.
func TestARepeatedTurnIsAnsweredFromTheRecord(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	first := &pawlv1.ModelRequest{
		Model: "gpt", System: new("be brief"), ToolsJson: new(`[{"name":"run_tests"}]`), ParametersJson: new(`{"temperature":0}`),
		Messages: []*pawlv1.ModelMessage{userMessage("go")},
	}
	one := r.askModel(ctx, turn, 1, first)
	if one.GetKey() != "model/1" || one.GetReplayed() || one.GetStep().GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING ||
		one.GetStep().GetKind() != pawlv1.StepKind_STEP_KIND_MODEL || one.GetMaxAnswerBytes() != 1<<20 {
		t.Fatalf("RequestModel %v", one)
	}
	r.answerModel(ctx, turn, one.GetStep(), spoken("I test.", `{"path": "."}`))

	call := func(turn *pawlv1.TurnRef, payload string) *pawlv1.StepOutcome {
		got, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
			RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
			Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: payload, Call: &pawlv1.ToolCallRef{ModelStep: one.GetStep().GetStep()}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetOutcomes()[0]
	}
	step := call(turn, `{"path":"."}`)
	if step.GetKey() != "model/1/0" || step.GetReplayed() {
		t.Fatalf("RequestStep %v", step)
	}
	if _, err := r.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
		RunId: turn.GetRunId(), Step: step.GetStep().GetStep(), Tool: "run_tests", Attempt: 1, TurnToken: turn.GetToken(),
		Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: `{"passed":true}`},
	}); err != nil {
		t.Fatal(err)
	}
	next := &pawlv1.ModelRequest{Model: "gpt", PreviousStep: one.GetStep().GetStep(), Messages: []*pawlv1.ModelMessage{resultOf(step.GetStep().GetStep(), "call_0")}}
	two := r.askModel(ctx, turn, 2, next)

	// The execution is lost in the midst of round 2.
	view, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	again := view.GetTurn()
	replayed := r.askModel(ctx, again, 1, first)
	if !replayed.GetReplayed() || replayed.GetStep().GetModel().GetAnswer().GetCalls()[0].GetArguments() != `{"path": "."}` ||
		replayed.GetStep().GetModel().GetUsage().GetInputTokens() != 100 {
		t.Fatalf("round 1 again: %v", replayed)
	}
	if o := call(again, `{"path":"elsewhere, the model worded it otherwise"}`); !o.GetReplayed() || o.GetStep().GetResultJson() != `{"passed":true}` ||
		o.GetStep().GetPayloadJson() != `{"path":"."}` {
		t.Fatalf("the tool's call again: %v", o)
	}
	retried := r.askModel(ctx, again, 2, next)
	if retried.GetReplayed() || retried.GetStep().GetStep() != two.GetStep().GetStep() || retried.GetStep().GetAttempt() != 2 {
		t.Fatalf("round 2 again: %v", retried)
	}
	// What the lost execution comes back with is no answer, but it was paid, once.
	for _, again := range []bool{false, true} {
		late, err := r.runs.AnswerModel(ctx, modelAnswer(turn, two.GetStep(), spoken("late")))
		if err != nil || late.GetDisposition() != pawlv1.Disposition_DISPOSITION_IGNORED_STALE || late.GetDuplicate() != again ||
			late.GetRecord().GetModelUpdated().GetUsage().GetInputTokens() != 100 {
			t.Fatalf("a late answer: %v, %v", late, err)
		}
	}
	_, err = r.runs.AnswerModel(ctx, modelAnswer(turn, two.GetStep(), spoken("later")))
	wantError(t, err, codes.AlreadyExists, "ANSWER_CONFLICT")
	r.answerModel(ctx, again, retried.GetStep(), spoken("done"))
	if got, err := r.runs.AnswerModel(ctx, modelAnswer(again, retried.GetStep(), spoken("done"))); err != nil || !got.GetDuplicate() {
		t.Fatalf("the same answer again: %v, %v", got, err)
	}
	_, err = r.runs.AnswerModel(ctx, modelAnswer(again, retried.GetStep(), spoken("other")))
	wantError(t, err, codes.AlreadyExists, "ANSWER_CONFLICT")

	run, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
	if err != nil || run.GetRun().GetTokens() != 330 || run.GetRun().GetToolCalls() != 1 {
		t.Fatalf("%d tokens, %d tool calls, %v", run.GetRun().GetTokens(), run.GetRun().GetToolCalls(), err)
	}
	shown, err := r.runs.GetModelStep(ctx, &pawlv1.GetModelStepRequest{RunId: turn.GetRunId(), Step: two.GetStep().GetStep()})
	if err != nil || shown.GetSystem() != "be brief" || shown.GetToolsJson() != `[{"name":"run_tests"}]` || shown.GetParametersJson() != `{"temperature":0}` {
		t.Fatalf("GetModelStep %v, %v", shown, err)
	}
	var words []string
	for _, m := range shown.GetMessages() {
		words = append(words, m.GetRole()+":"+m.GetParts()[0].GetText()+m.GetParts()[0].GetJson()+m.GetToolCallsJson()+m.GetToolCallId())
	}
	want := []string{"user:go", `assistant:I test.[{"id":"call_0","name":"run_tests","arguments":"{\"path\": \".\"}"}]`, `tool:{"passed":true}call_0`}
	if strings.Join(words, "\n") != strings.Join(want, "\n") {
		t.Fatalf("the model was shown %q, want %q", words, want)
	}

	// A fork stands alone: its requests show what the source's do, and none is asked again.
	fork, err := r.runs.ForkRun(ctx, &pawlv1.ForkRunRequest{RunId: turn.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.askModel(ctx, fork.GetTurn(), 1, first); !got.GetReplayed() || got.GetStep().GetModel().GetRequestChanged() || len(got.GetStep().GetModel().GetAnswer().GetCalls()) != 1 {
		t.Fatalf("round 1 of the fork: %v", got)
	}
	copied, err := r.runs.GetModelStep(ctx, &pawlv1.GetModelStepRequest{RunId: fork.GetRun().GetRunId(), Step: 3})
	if err != nil || copied.GetSystem() != shown.GetSystem() || !slices.EqualFunc(copied.GetMessages(), shown.GetMessages(), func(a, b *pawlv1.Message) bool { return proto.Equal(a, b) }) {
		t.Fatalf("the fork shows %v, %v", copied, err)
	}
}

// TestANormalAnswerIsReadAsItWasRecorded: the fields of ADR 0087 come back, and an answer that
// differs in one of them is another answer.
func TestANormalAnswerIsReadAsItWasRecorded(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	asked := &pawlv1.ModelRequest{Model: "gpt", Messages: []*pawlv1.ModelMessage{userMessage("go")}}
	one := r.askModel(ctx, turn, 1, asked)
	answer := func(provider, broken string) *pawlv1.ModelAnswer {
		out := spoken("", "{}")
		out.ProviderName, out.Calls[0].Id, out.Calls[0].BrokenArguments = provider, strings.Repeat("s", 4096), broken
		return out
	}
	r.answerModel(ctx, turn, one.GetStep(), answer("openai", `{"n": `))
	again := r.askModel(ctx, turn, 1, asked).GetStep().GetModel().GetAnswer()
	if want := answer("openai", `{"n": `); !proto.Equal(again, want) {
		t.Fatalf("recorded %v, want %v", again, want)
	}
	for _, other := range []*pawlv1.ModelAnswer{answer("anthropic", `{"n": `), answer("openai", `{"n`), answer("openai", ""), answer("", `{"n": `)} {
		_, err := r.runs.AnswerModel(ctx, modelAnswer(turn, one.GetStep(), other))
		wantError(t, err, codes.AlreadyExists, "ANSWER_CONFLICT")
	}
}

// TestToolPolicyHolds: a program that asks for more rounds than tool_policy.max_rounds, or makes calls of a model where
// tool_choice is none, is refused by the sidecar itself.
func TestToolPolicyHolds(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	pack := strings.Replace(string(loopPack), `"tool_policy": {`, `"tool_policy": {"max_rounds": 1, "tool_choice": "none", `, 1)
	if pack == string(loopPack) {
		t.Fatal("the pack has no tool_policy")
	}
	pack = strings.Replace(pack, `"version": "1.0.0"`, `"version": "9.0.0"`, 1)
	if _, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(pack)}); err != nil {
		t.Fatal(err)
	}
	turn := r.startOnly(ctx).GetTurn()
	request := &pawlv1.ModelRequest{Model: "gpt", Messages: []*pawlv1.ModelMessage{userMessage("go")}}
	one := r.askModel(ctx, turn, 1, request)
	r.answerModel(ctx, turn, one.GetStep(), spoken("I test.", `{"path": "."}`))
	got, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: `{"path":"."}`, Call: &pawlv1.ToolCallRef{ModelStep: one.GetStep().GetStep()}}},
	})
	if err != nil || got.GetOutcomes()[0].GetDenial().GetCode() != "TOOL_BLOCKED" {
		t.Errorf("RequestStep %v, %v", got, err)
	}
	if again := r.askModel(ctx, turn, 1, request); !again.GetReplayed() {
		t.Errorf("the recorded round: %v", again)
	}
	_, err = r.runs.RequestModel(ctx, modelRequest(turn, 2, request))
	wantError(t, err, codes.FailedPrecondition, "MAX_ROUNDS")
}
