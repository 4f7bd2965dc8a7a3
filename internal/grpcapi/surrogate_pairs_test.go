package grpcapi

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestHalvesOfCharacters: JSON with half of a surrogate pair, which JavaScript writes and Python
// cannot send, is refused in each field that takes JSON, and over HTTP.
func TestHalvesOfCharacters(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	turn := r.start(ctx).GetTurn()
	const half = `{"goal":["\ud83d\ude00","\ud800"]}`
	message := &pawlv1.Message{Role: "assistant", ToolCallsJson: half}
	model := func(change func(*pawlv1.ModelRequest)) func() error {
		return func() error {
			asked := &pawlv1.ModelRequest{Model: "gpt", System: new("x"), ToolsJson: new("[]"), ParametersJson: new("{}"), Messages: []*pawlv1.ModelMessage{userMessage("go")}}
			change(asked)
			_, err := r.runs.RequestModel(ctx, &pawlv1.RequestModelRequest{
				RunId: turn.GetRunId(), TurnSeq: 1, Attempt: 1, TurnToken: turn.GetToken(), Round: 1, Request: asked,
			})
			return err
		}
	}
	for field, call := range map[string]func() error{
		"variables_json": func() error {
			req := startRequest()
			req.VariablesJson = half
			_, err := r.runs.StartRun(ctx, req)
			return err
		},
		"artifacts[log]": func() error {
			_, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{
				RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken(), Artifacts: []*pawlv1.ArtifactWrite{jsonValue("log", half)},
			})
			return err
		},
		"requests[0].payload_json": func() error {
			_, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
				RunId: turn.GetRunId(), TurnSeq: 1, Attempt: 1, TurnToken: turn.GetToken(), Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: half}},
			})
			return err
		},
		"result_json": func() error {
			_, err := r.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
				RunId: turn.GetRunId(), Step: 1, Tool: "run_tests", Attempt: 1, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: half},
			})
			return err
		},
		"messages[0].tool_calls_json": func() error {
			_, err := r.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
				RunId: turn.GetRunId(), TurnSeq: 1, Attempt: 1, TurnToken: turn.GetToken(), Messages: []*pawlv1.Message{message},
			})
			return err
		},
		"request.tools_json":      model(func(m *pawlv1.ModelRequest) { m.ToolsJson = new(half) }),
		"request.parameters_json": model(func(m *pawlv1.ModelRequest) { m.ParametersJson = new(half) }),
	} {
		err := call()
		if err == nil {
			t.Errorf("%s: it was taken", field)
			continue
		}
		st := wantError(t, err, codes.InvalidArgument, "INVALID_JSON")
		if !strings.Contains(st.Message(), field) || !strings.Contains(st.Message(), "half of a surrogate pair") {
			t.Errorf("%s: %q", field, st.Message())
		}
	}
	code, text, reason := errorOf(t, r.httpCall(ctx, "POST", "/v1/runs", `{"pack":"loop","execution":"EXECUTION_CALLER","variables":{"goal":"\ud800"}}`))
	if code != 3 || reason == "" || !strings.Contains(text, "surrogate") {
		t.Errorf("over HTTP: %d %s %s", code, reason, text)
	}
}
