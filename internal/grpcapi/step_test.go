package grpcapi

import (
	"bytes"
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// requestStep requests one tool call and fails the test unless the call is pending.
func (r *rig) requestStep(ctx context.Context, turn *pawlv1.TurnRef, tool, payload string) *pawlv1.Step {
	r.t.Helper()
	got, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: tool, PayloadJson: payload}},
	})
	if err != nil || len(got.GetOutcomes()) != 1 || got.GetOutcomes()[0].GetStep().GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
		r.t.Fatalf("RequestStep %v, %v", got, err)
	}
	return got.GetOutcomes()[0].GetStep()
}

func TestSteps(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	got, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{
			{Key: "tests", Tool: "run_tests", PayloadJson: `{"path": "."}`},
			{Tool: "run_tests", PayloadJson: `{}`},
			{Tool: "rm_rf"},
			{Tool: "write_file"},
		},
	})
	if err != nil || len(got.GetOutcomes()) != 4 {
		t.Fatalf("RequestStep %v, %v", got, err)
	}
	first := got.GetOutcomes()[0]
	if first.GetKey() != "tests" || first.GetStep().GetStep() != 1 || first.GetStep().GetTool() != "run_tests" || first.GetStep().GetPayloadJson() != `{"path":"."}` {
		t.Fatalf("outcome %v", first)
	}
	for i := 1; i <= 2; i++ {
		if o := got.GetOutcomes()[i]; o.GetDenial().GetCode() == "" || o.GetStep() != nil {
			t.Fatalf("outcome %d: %v", i, o)
		}
	}
	if o := got.GetOutcomes()[3]; o.GetStep().GetStep() != 2 || o.GetStep().GetPayloadJson() != `{}` {
		t.Fatalf("outcome 3: %v", o)
	}

	resolve := &pawlv1.ResolveStepRequest{
		RunId: turn.GetRunId(), Step: 1, Tool: "run_tests", Attempt: 1, TurnToken: turn.GetToken(),
		Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: ` {"ok": true} `},
	}
	answered, err := r.runs.ResolveStep(ctx, resolve)
	if err != nil || answered.GetDisposition() != pawlv1.Disposition_DISPOSITION_ACCEPTED || answered.GetRecord().GetStepResolved().GetResultJson() != `{"ok":true}` {
		t.Fatalf("ResolveStep %v, %v", answered, err)
	}
	again, err := r.runs.ResolveStep(ctx, resolve)
	if err != nil || again.GetDisposition() != pawlv1.Disposition_DISPOSITION_IGNORED_DUPLICATE {
		t.Fatalf("ResolveStep again: %v, %v", again, err)
	}
	if got, want := again.GetRecord(), answered.GetRecord(); got.GetSeq() != want.GetSeq() || !bytes.Equal(got.GetHash(), want.GetHash()) {
		t.Fatalf("the record of a duplicate is %v, not %v", got, want)
	}
	unknown := &pawlv1.ResolveStepRequest{
		RunId: "01J99999999999999999999999", Step: 1, Tool: "run_tests", Attempt: 1,
		Answer: &pawlv1.ResolveStepRequest_Error{Error: &pawlv1.Fault{Code: "X"}},
	}
	_, err = r.runs.ResolveStep(ctx, unknown)
	wantError(t, err, codes.PermissionDenied, "STEP_NOT_HELD")

	view, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	if err != nil || len(view.GetSteps()) != 2 || view.GetSteps()[0].GetResultJson() != `{"ok":true}` ||
		view.GetSteps()[0].GetStatus() != pawlv1.StepStatus_STEP_STATUS_OK || view.GetSteps()[1].GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
		t.Fatalf("GetTurn %v, %v", view, err)
	}
}

func TestStepMismatchFailsTheAttempt(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	ask := func(path string) error {
		_, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
			RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
			Requests: []*pawlv1.StepRequest{{Key: "k", Tool: "run_tests", PayloadJson: `{"path":"` + path + `"}`}},
		})
		return err
	}
	if err := ask("a"); err != nil {
		t.Fatal(err)
	}
	wantError(t, ask("b"), codes.FailedPrecondition, "STEP_MISMATCH")
	got, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
	if err != nil || got.GetRun().GetTurn().GetAttempt() != 2 {
		t.Fatalf("GetRun %v, %v", got, err)
	}
}

// TestResolveOfUnknownRun: if a principal may answer any step, an answer for an unknown run is no error.
func TestResolveOfUnknownRun(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	got, err := r.runs.ResolveStep(withToken(ctx, "admin"), &pawlv1.ResolveStepRequest{
		RunId: "01J99999999999999999999999", Step: 1, Tool: "run_tests", Attempt: 1,
		Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: "1"},
	})
	if err != nil || got.GetDisposition() != pawlv1.Disposition_DISPOSITION_IGNORED_UNKNOWN_RUN {
		t.Fatalf("ResolveStep %v, %v", got, err)
	}
}

// TestStepsHaveOneIdempotencyKey (8.5): each message that contains a step has the same idempotency key for it.
// The key does not contain the attempt.
func TestStepsHaveOneIdempotencyKey(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	want := turn.GetRunId() + "/1"
	asked := r.requestStep(ctx, turn, "run_tests", `{"path": "."}`)
	view, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	run, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	delivery := dispatch.StepDelivery{Run: &machine.State{RunID: turn.GetRunId()}}
	delivery.StepLease = dispatch.StepLease{RunID: turn.GetRunId(), Step: 1, Attempt: 3}
	for where, got := range map[string]string{
		"RequestStep": asked.GetIdempotencyKey(),
		"GetTurn":     view.GetSteps()[0].GetIdempotencyKey(),
		"GetRun":      run.GetRun().GetSteps()[0].GetIdempotencyKey(),
		"assignment":  convert.StepAssignmentToProto(&delivery).GetIdempotencyKey(),
	} {
		if got != want {
			t.Errorf("%s: %q, want %q", where, got, want)
		}
	}
}

// TestByCallerIsTold: the answer, the turn and the record say that the caller makes a call.
func TestByCallerIsTold(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	for _, own := range []bool{true, false} {
		got, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
			RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
			Requests: []*pawlv1.StepRequest{{Tool: "write_file", PayloadJson: `{}`, ByCaller: own}},
		})
		if err != nil || got.GetOutcomes()[0].GetStep().GetByCaller() != own {
			t.Fatalf("RequestStep %v, %v", got, err)
		}
	}
	view, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	if err != nil || len(view.GetSteps()) != 2 || !view.GetSteps()[0].GetByCaller() || view.GetSteps()[1].GetByCaller() {
		t.Fatalf("GetTurn %v, %v", view, err)
	}
	page, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{
		RunId: turn.GetRunId(), Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED},
	})
	if err != nil || len(page.GetRecords()) != 2 || !page.GetRecords()[0].GetStepRequested().GetByCaller() || page.GetRecords()[1].GetStepRequested().GetByCaller() {
		t.Fatalf("ListTransitions %v, %v", page, err)
	}
}
