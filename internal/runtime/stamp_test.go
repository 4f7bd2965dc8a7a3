package runtime_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
)

func call(tool, payload string) machine.StepRequest {
	return machine.StepRequest{Tool: tool, Payload: []byte(payload)}
}

func (r *rig) request(run, token string, requests ...machine.StepRequest) (runtime.Answer, error) {
	return r.RequestSteps(context.Background(), runtime.StepsRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(run, everyone), TurnToken: token}, Requests: requests,
	})
}

func TestStepsAreFilteredByHostAndSchema(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, tool, payload string
		allow               []string
		denied              string
	}{
		{"empty allowlist admits nothing", "run_tests", `{"path": "x"}`, nil, "TOOL_NOT_ALLOWED"},
		{"another tool is listed", "run_tests", `{"path": "x"}`, []string{"write_file"}, "TOOL_NOT_ALLOWED"},
		{"not the prompt's", "rm_rf", `{}`, []string{"*"}, "TOOL_NOT_LISTED"},
		{"parameters missing", "run_tests", `{}`, []string{"*"}, "PAYLOAD_INVALID"},
		{"parameter of another type", "run_tests", `{"path": 1}`, []string{"run_tests"}, "PAYLOAD_INVALID"},
		{"admitted", "run_tests", `{"path": "x"}`, []string{"run_tests"}, ""},
		{"a parameter named step", "write_file", `{"step": 7, "run_id": "x"}`, []string{"*"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *services.Config) { c.AllowTools = tt.allow })
			run := r.start("s1")
			answer, err := r.request(run.RunID, run.Turn.Token, call(tt.tool, tt.payload))
			if err != nil {
				t.Fatal(err)
			}
			step := answer.Steps[0]
			if tt.denied == "" {
				if step.Step != 1 || step.Denial != nil || answer.State.ToolCalls != 1 {
					t.Fatalf("step %+v", step)
				}
				return
			}
			if step.Step != 0 || step.Denial == nil || step.Denial.Code != tt.denied || answer.State.ToolCalls != 0 {
				t.Fatalf("step %+v, denial %+v", step, step.Denial)
			}
		})
	}
}

// TestARepeatedTurnFindsItsSteps: a fresh execution of the turn asks for the
// same calls again and is answered from the record, at no cost.
func TestARepeatedTurnFindsItsSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	run := r.start("s1")
	first, err := r.request(run.RunID, run.Turn.Token, call("run_tests", `{"path": "a"}`))
	if err != nil {
		t.Fatal(err)
	}
	resolve := runtime.ResolveRequest{
		RunRef: ref(run.RunID, everyone), TurnToken: run.Turn.Token, Step: first.Steps[0].Step,
		Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(` { "passed" : true } `),
	}
	if answer, err := r.ResolveStep(ctx, resolve); err != nil || answer.Disposition != machine.Accepted {
		t.Fatalf("%+v, %v", answer, err)
	}
	if answer, err := r.ResolveStep(ctx, resolve); err != nil || answer.Disposition != machine.IgnoredDuplicate {
		t.Fatalf("the same answer again: %+v, %v", answer, err)
	}
	if _, err := r.request(run.RunID, run.Turn.Token, call("run_tests", `{"path": "b"}`)); err != nil {
		t.Fatal(err)
	}
	r.restart()
	turn, err := r.GetTurn(ctx, ref(run.RunID, everyone))
	if err != nil {
		t.Fatal(err)
	}
	if len(turn.Steps) != 2 || string(turn.Steps[0].Result) != `{"passed":true}` || string(turn.Steps[1].Payload) != `{"path":"b"}` {
		t.Fatalf("steps %+v", turn.Steps)
	}
	again, err := r.request(run.RunID, turn.Token, call("run_tests", `{"path": "a"}`))
	if err != nil {
		t.Fatal(err)
	}
	step := again.Steps[0]
	if !step.Replayed || step.Step != 1 || string(step.Result) != `{"passed":true}` || again.State.ToolCalls != 2 {
		t.Fatalf("replayed %+v, %d calls", step, again.State.ToolCalls)
	}
	if again, err = r.request(run.RunID, turn.Token, call("run_tests", `{"path": "b"}`)); err != nil || !again.Steps[0].Replayed {
		t.Fatalf("the second request of the execution: %+v, %v", again.Steps, err)
	}
	if again, err = r.request(run.RunID, turn.Token, call("run_tests", `{"path": "c"}`)); err != nil || again.Steps[0].Step != 3 {
		t.Fatalf("a new request: %+v, %v", again.Steps, err)
	}
}

func TestAMismatchingStepFailsTheAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	keyed := func(payload string) machine.StepRequest {
		return machine.StepRequest{Key: "k", Tool: "write_file", Payload: []byte(payload)}
	}
	if _, err := r.request(run.RunID, run.Turn.Token, keyed(`{"n": 9007199254740993}`)); err != nil {
		t.Fatal(err)
	}
	answer, err := r.request(run.RunID, run.Turn.Token, keyed(`{"n": 9007199254740992}`))
	wantReason(t, err, "STEP_MISMATCH")
	if answer.State.Turn.Attempt != 2 || answer.Turn.Token == "" || answer.State.ToolCalls != 1 {
		t.Fatalf("answer %+v", answer)
	}
}

func TestWhoMayAnswerAStep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	run := r.start("s1")
	if _, err := r.request(run.RunID, run.Turn.Token, call("write_file", `{}`)); err != nil {
		t.Fatal(err)
	}
	answer := func(p runtime.Principal, id, token string) (machine.Disposition, string) {
		a, err := r.ResolveStep(ctx, runtime.ResolveRequest{
			RunRef: ref(id, p), TurnToken: token, Step: 1, Tool: "write_file", Attempt: 1, OK: true,
		})
		return a.Disposition, reason(err)
	}
	check := func(what string, p runtime.Principal, id, token string, want machine.Disposition, denied string) {
		t.Helper()
		if got, why := answer(p, id, token); got != want || why != denied {
			t.Fatalf("%s: disposition %d, %q; want %d, %q", what, got, why, want, denied)
		}
	}
	check("no token", everyone, run.RunID, "", 0, "STEP_NOT_HELD")
	check("a made-up token", everyone, run.RunID, "x", 0, "TURN_TOKEN_STALE")
	check("absent run, no token", everyone, "absent", "", 0, "STEP_NOT_HELD")
	check("absent run, admin", boss, "absent", "", machine.IgnoredUnknownRun, "")
	r.emit(run.RunID, "Again", "", run.Turn.Token)
	check("the visit is over", everyone, run.RunID, run.Turn.Token, machine.IgnoredStale, "")
	if _, err := r.CancelRun(ctx, runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	check("the run is over, no token", everyone, run.RunID, "", 0, "STEP_NOT_HELD")
	check("the run is over, admin", boss, run.RunID, "", machine.IgnoredTerminal, "")
}

func TestSuspendedTurnComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	run := r.start("s1")
	token := run.Turn.Token
	if _, err := r.request(run.RunID, token, call("write_file", `{}`)); err != nil {
		t.Fatal(err)
	}
	suspended, err := r.SuspendTurn(ctx, runtime.TurnCall{RunRef: ref(run.RunID, everyone), TurnToken: token})
	if err != nil || suspended.State.Status != machine.Waiting {
		t.Fatalf("%+v, %v", suspended.State, err)
	}
	answer, err := r.ResolveStep(ctx, runtime.ResolveRequest{
		RunRef: ref(run.RunID, everyone), TurnToken: token, Step: 1, Tool: "write_file", Attempt: 1, OK: true,
	})
	if err != nil || answer.State.Status != machine.Running || answer.State.Turn.Attempt != 1 {
		t.Fatalf("%+v, %v", answer.State, err)
	}
	again, err := r.request(run.RunID, token, call("write_file", `{}`))
	if err != nil || !again.Steps[0].Replayed || again.Steps[0].Key != "1" {
		t.Fatalf("the execution after the release does not begin anew: %+v, %v", again.Steps, err)
	}
	if again, err = r.request(run.RunID, token, call("run_tests", `{"path": "x"}`)); err != nil || again.Steps[0].Key != "2" {
		t.Fatalf("its second request: %+v, %v", again.Steps, err)
	}
	r.emit(run.RunID, "Again", "", token)
}

func TestMalformedStepsAreRefusedBeforeTheRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	_, err := r.request(run.RunID, run.Turn.Token, call("write_file", `{`))
	wantReason(t, err, "INVALID_JSON")
	_, err = r.request(run.RunID, run.Turn.Token, call("", `{}`))
	wantReason(t, err, "TOOL_REQUIRED")
	_, err = r.ResolveStep(context.Background(), runtime.ResolveRequest{RunRef: ref(run.RunID, boss), Step: 1, Attempt: 1, OK: true, Result: []byte("{")})
	wantReason(t, err, "INVALID_JSON")
	_, err = r.ResolveStep(context.Background(), runtime.ResolveRequest{RunRef: ref(run.RunID, boss)})
	wantReason(t, err, "STEP_REQUIRED")
	_, err = r.Apply(context.Background(), runtime.Request{RunRef: ref(run.RunID, boss), Command: machine.FireTimer{}})
	wantReason(t, err, "UNKNOWN_COMMAND")
}
