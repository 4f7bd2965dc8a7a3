package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// chainPack has three members: top asks middle, middle asks bottom, and bottom works in a workflow
// with a declared failing end.
const chainPack = `{
  "id": "chain", "name": "Chain", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "top": {"id": "top", "name": "Top", "version": "1.0.0", "system_template": "Top.", "tools": ["middle"]},
    "middle": {"id": "middle", "name": "Middle", "version": "1.0.0", "system_template": "Middle.", "tools": ["bottom"]},
    "bottom": {"id": "bottom", "name": "Bottom", "version": "1.0.0", "system_template": "Bottom."}
  },
  "agents": {"entry": "top", "members": {"top": {}, "middle": {}, "bottom": {"state": "try"}}},
  "workflow": {
    "version": 2, "entry": "try", "engine": {"budget": {"max_wall_time_sec": 600}, "x_pawl": {"outcome": {"give_up": "failed"}}},
    "states": {
      "try": {"prompt_task": "bottom", "on_event": {"Done": "end", "No": "give_up"}},
      "end": {"prompt_task": "bottom", "terminal": true}, "give_up": {"prompt_task": "bottom", "terminal": true}
    }
  }
}`

// chain serves chainPack with a worker for all three members. The input of bottom decides which end it reaches.
func chain(t *testing.T) (*runningSidecar, pawlv1.RunServiceClient) {
	t.Helper()
	c := settings(t)
	c.Packs, c.AllowTools = []string{packWith(t, chainPack)}, []string{"*"}
	s := serveToEnd(t, c)
	return s, runWorker(t, s, "hands", map[string]pawl.TurnFunc{
		"top": passToMember("middle", 1), "middle": passToMember("bottom", 10), "bottom": impossibleTurn,
	})
}

// passToMember passes its input to a member, and ends with the member's answer or the reason of its failure.
func passToMember(member string, tokens int64) pawl.TurnFunc {
	return func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
		said := t.Assignment.GetTurn().GetMessages()[0].GetParts()[0].GetText()
		result, err := t.Step(ctx, "", member, fmt.Sprintf(`{"message": %q}`, said))
		if err != nil {
			result = "not done: " + err.Error()
		}
		return pawl.Completion{Output: text(result), Usage: &pawlv1.Usage{InputTokens: tokens, CostMicroUsd: tokens}}, nil
	}
}

// impossibleTurn emits No for an input with the word "impossible", and Done for any other.
// Its work takes two turns.
func impossibleTurn(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
	turn := t.Assignment.GetTurn()
	used := &pawlv1.Usage{OutputTokens: 50, CostMicroUsd: 50, ToolCalls: 1}
	if turn.GetTerminal() {
		return pawl.Completion{Output: text("ended"), Usage: used}, nil
	}
	event := "Done"
	if strings.Contains(turn.GetMessages()[0].GetParts()[0].GetText(), "impossible") {
		event = "No"
	}
	return pawl.Completion{Event: event, Usage: used}, nil
}

// TestFailingEndOverA2A: a task that ends in a state which the pack declares as failed has failed,
// with its reason. A task that ends in another state of the same workflow has not failed.
func TestFailingEndOverA2A(t *testing.T) {
	t.Parallel()
	s, _ := chain(t)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "a2a-version", "1.0"), time.Minute)
	defer cancel()
	for words, want := range map[string]a2apb.TaskState{
		"impossible": a2apb.TaskState_TASK_STATE_FAILED, "easy": a2apb.TaskState_TASK_STATE_COMPLETED,
	} {
		got, err := agentsOf(t, s).SendMessage(ctx, &a2apb.SendMessageRequest{Tenant: "chain/bottom", Message: &a2apb.Message{
			MessageId: words, Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}},
		}})
		if err != nil || got.GetTask().GetStatus().GetState() != want {
			t.Fatalf("%s: %v, %v", words, got, err)
		}
		reason := got.GetTask().GetMetadata().GetFields()["pawl.reason"].GetStringValue()
		if failed := want == a2apb.TaskState_TASK_STATE_FAILED; failed != (reason == "outcome:give_up") {
			t.Errorf("%s: reason %q", words, reason)
		}
	}
}

// TestFailingEndOfADelegation: the run that delegated receives the failure of the member and its
// reason. What the member consumed counts all the same, once at each level above it.
func TestFailingEndOfADelegation(t *testing.T) {
	t.Parallel()
	_, runs := chain(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for words, ok := range map[string]bool{"impossible": false, "easy": true} {
		started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{
			Pack: "chain", Execution: pawlv1.Execution_EXECUTION_WORKERS, Input: text(words), Entry: &pawlv1.StartRunRequest_Agent{Agent: "top"},
		})
		if err != nil {
			t.Fatal(err)
		}
		ended, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: started.GetRun().GetRunId()})
		if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			t.Fatalf("%s: %v, %v", words, ended, err)
		}
		top := ended.GetRun()
		middle := childOf(ctx, t, runs, top)
		bottom := childOf(ctx, t, runs, middle)
		for _, level := range []struct {
			name          string
			run           *pawlv1.Run
			tokens, calls int64
		}{{"bottom", bottom, 100, 2}, {"middle", middle, 110, 3}, {"top", top, 111, 4}} {
			if r := level.run; r.GetTokens() != level.tokens || r.GetCostMicroUsd() != level.tokens || int64(r.GetToolCalls()) != level.calls {
				t.Errorf("%s: %s has %d tokens, %d micro-dollars, %d calls, want %d, %[4]d, %d", words, level.name,
					r.GetTokens(), r.GetCostMicroUsd(), r.GetToolCalls(), level.tokens, level.calls)
			}
		}
		answer := answerIn(ctx, t, runs, middle)
		if answer.GetOk() != ok || !ok && !strings.Contains(answer.GetError().String(), "outcome:give_up") {
			t.Errorf("%s: the member's answer is %v", words, answer)
		}
		if failed := bottom.GetStatus() == pawlv1.RunStatus_RUN_STATUS_FAILED; failed == ok {
			t.Errorf("%s: the member is %v (%s)", words, bottom.GetStatus(), bottom.GetReason())
		}
	}
}

// childOf returns the one run that another run delegated to.
func childOf(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, parent *pawlv1.Run) *pawlv1.Run {
	t.Helper()
	got, err := runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: &pawlv1.RunFilter{ParentRunId: parent.GetRunId()}})
	if err != nil || len(got.GetRuns()) != 1 {
		t.Fatalf("children of %s: %v, %v", parent.GetRunId(), got, err)
	}
	return got.GetRuns()[0]
}

// answerIn returns the answer to the one step of a run.
func answerIn(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, run *pawlv1.Run) *pawlv1.StepResolved {
	t.Helper()
	got, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{
		RunId: run.GetRunId(), Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED},
	})
	if err != nil || len(got.GetRecords()) != 1 {
		t.Fatalf("answers in %s: %v, %v", run.GetRunId(), got, err)
	}
	return got.GetRecords()[0].GetStepResolved()
}
