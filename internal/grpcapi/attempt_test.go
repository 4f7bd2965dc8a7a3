package grpcapi

import (
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
)

// TestAnAnswerNamesItsAttempt: an answer without its attempt is refused over each API, because a repeat of it
// would answer the next attempt.
func TestAnAnswerNamesItsAttempt(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withGateway), testContext(t)
	turn := r.start(ctx).GetTurn()
	step := r.requestStep(ctx, turn, "run_tests", `{"path": "."}`)
	answer := func(attempt int32) *pawlv1.ResolveStepRequest {
		return &pawlv1.ResolveStepRequest{
			RunId: turn.GetRunId(), Step: step.GetStep(), Tool: "run_tests", Attempt: attempt, TurnToken: turn.GetToken(),
			Answer: &pawlv1.ResolveStepRequest_Error{Error: &pawlv1.Fault{Code: "BUSY", Message: "busy"}},
		}
	}
	for _, attempt := range []int32{0, -1} {
		_, err := r.runs.ResolveStep(ctx, answer(attempt))
		wantError(t, err, codes.InvalidArgument, apierror.InvalidRequest)
	}
	resp := r.httpCall(ctx, http.MethodPost, "/v1/runs/"+turn.GetRunId()+"/steps/1:resolve", `{"tool": "run_tests", "error": {"code": "BUSY"}}`)
	if _, message, reason := errorOf(t, resp); resp.StatusCode != http.StatusBadRequest || reason != apierror.InvalidRequest {
		t.Errorf("over HTTP: %d %s %s", resp.StatusCode, reason, message)
	}
	h := r.registerWorker(ctx, registration("w"))
	_, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_ResolveStep{ResolveStep: answer(0)}})
	if st := status.Convert(err); statusReason(st) != apierror.InvalidRequest {
		t.Errorf("of a worker: %v", err)
	}
	// An error that is sent twice is the error of one attempt.
	for i, want := range []pawlv1.Disposition{pawlv1.Disposition_DISPOSITION_ACCEPTED, pawlv1.Disposition_DISPOSITION_IGNORED_DUPLICATE} {
		got, err := r.runs.ResolveStep(ctx, answer(1))
		if err != nil || got.GetDisposition() != want {
			t.Errorf("time %d: %v, %v; want %v", i+1, got, err, want)
		}
	}
}
