package grpcapi

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

func textPart(words string) *pawlv1.Part {
	return &pawlv1.Part{Content: &pawlv1.Part_Text{Text: words}}
}

// TestGetRunTellsItsBeginning: whose start it was, for what, and which budgets hold:
// the pack's, lowered by the start and by the operator.
func TestGetRunTellsItsBeginning(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, func(_ *Config, e *services.Config) { e.MaxWallTime = time.Minute }), testContext(t)
	bounded := bytes.Replace(loopPack, []byte(`"budget": {"max_wall_time_sec": 3600},
      "x_pawl": {`), []byte(`"budget": {"max_total_visits": 9, "max_tool_calls": 8, "max_wall_time_sec": 600},
      "x_pawl": {"max_steps": 7, "max_reframes": 6, "max_tokens": 5, "max_cost_usd": 4, "wall_time_excludes_waiting": true, `), 1)
	if _, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: bounded}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*pawlv1.StartRunRequest)
		goal   string
		steps  int32
	}{
		"a variable":   {func(*pawlv1.StartRunRequest) {}, "ship", 7},
		"an input":     {func(q *pawlv1.StartRunRequest) { q.Input = []*pawlv1.Part{textPart("ship"), textPart("it")} }, "ship\nit", 7},
		"fewer steps":  {func(q *pawlv1.StartRunRequest) { q.MaxSteps = 3 }, "ship", 3},
		"no more than": {func(q *pawlv1.StartRunRequest) { q.MaxSteps = 30 }, "ship", 7},
	} {
		req := startRequest()
		req.RequestId = name
		tt.change(req)
		started, err := r.runs.StartRun(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		get := &pawlv1.GetRunRequest{RunId: started.GetRun().GetRunId(), IncludeVariables: true}
		got, err := r.runs.GetRun(ctx, get)
		if err != nil || got.GetGoal() != tt.goal || got.GetRequestId() != name || got.GetVariablesJson() == "" {
			t.Errorf("%s: goal %q of %q, %v", name, got.GetGoal(), got.GetRequestId(), err)
		}
		want := &pawlv1.RunBudgets{
			MaxTotalVisits: 9, MaxToolCalls: 8, MaxSteps: tt.steps, MaxReframes: 6, MaxTokens: 5, MaxCostMicroUsd: 4_000_000,
			WallTimeExcludesWaiting: true,
		}
		wall := got.GetBudgets().GetMaxWallTime().AsDuration()
		got.GetBudgets().MaxWallTime = nil
		if wall != time.Minute || !proto.Equal(got.GetBudgets(), want) {
			t.Errorf("%s: %v and %v", name, wall, got.GetBudgets())
		}
		get.IncludeVariables = false
		if got, err := r.runs.GetRun(ctx, get); err != nil || got.GetGoal() != "" || got.GetRequestId() != name || got.GetBudgets() == nil {
			t.Errorf("%s, not asked for: %v, %v", name, got, err)
		}
		forked, err := r.runs.ForkRun(ctx, &pawlv1.ForkRunRequest{RunId: get.GetRunId(), RequestId: "fork of " + name, MaxSteps: 2})
		if err != nil {
			t.Fatal(err)
		}
		got, err = r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: forked.GetRun().GetRunId(), IncludeVariables: true})
		if err != nil || got.GetGoal() != "ship" || got.GetRequestId() != "fork of "+name || got.GetBudgets().GetMaxSteps() != 2 {
			t.Errorf("fork of %s: %v, %v", name, got, err)
		}
	}
}
