package demo

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/script"
)

// stepClient answers each request for a call with one step.
type stepClient struct {
	pawlv1.RunServiceClient
	step     *pawlv1.Step
	resolved int
}

func (a *stepClient) RequestStep(context.Context, *pawlv1.RequestStepRequest, ...grpc.CallOption) (*pawlv1.RequestStepResponse, error) {
	return &pawlv1.RequestStepResponse{Outcomes: []*pawlv1.StepOutcome{{Step: a.step}}}, nil
}

func (a *stepClient) ResolveStep(context.Context, *pawlv1.ResolveStepRequest, ...grpc.CallOption) (*pawlv1.ResolveStepResponse, error) {
	a.resolved++
	return &pawlv1.ResolveStepResponse{Disposition: pawlv1.Disposition_DISPOSITION_ACCEPTED}, nil
}

// TestOnlyReleasedCallsAreMade: the executor makes only pending calls that are not held.
func TestOnlyReleasedCallsAreMade(t *testing.T) {
	t.Parallel()
	const pending = pawlv1.StepStatus_STEP_STATUS_PENDING
	for name, tc := range map[string]struct {
		step *pawlv1.Step
		made int
	}{
		"free":       {&pawlv1.Step{Status: pending, ByCaller: true}, 1},
		"a worker's": {&pawlv1.Step{Status: pending}, 0},
		"approved":   {&pawlv1.Step{Status: pending, ByCaller: true, Approval: &pawlv1.StepApproval{Verdict: pawlv1.StepVerdict_STEP_VERDICT_APPROVED}}, 1},
		"held":       {&pawlv1.Step{Status: pending, ByCaller: true, Approval: &pawlv1.StepApproval{Held: true}}, 0},
		"unknown":    {&pawlv1.Step{Status: pending, ByCaller: true, Inquiry: 7}, 0},
		"denied":     {&pawlv1.Step{Status: pawlv1.StepStatus_STEP_STATUS_ERROR}, 0},
		"cancelled":  {&pawlv1.Step{Status: pawlv1.StepStatus_STEP_STATUS_CANCELLED}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.step.Step, tc.step.Tool, tc.step.PayloadJson = 1, "write_file", `{"path":"x.txt","content":"paid"}`
			runs := &stepClient{step: tc.step}
			e := &executor{runs: runs, tools: &tools{workspace: newWorkspace(t)}, printLine: func(string, string, ...any) {}}
			_, err := e.step(t.Context(), &pawlv1.GetTurnResponse{}, "1", &script.Step{Tool: "write_file"})
			if e.tools.executed != tc.made || runs.resolved != tc.made {
				t.Errorf("%d calls were made, %d answered, want %d", e.tools.executed, runs.resolved, tc.made)
			}
			if tc.made == 0 && (err == nil || !strings.Contains(err.Error(), "may not be made")) {
				t.Errorf("error %v", err)
			}
		})
	}
}
