package pawl_test

import (
	"context"
	"testing"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestAgentAnswers: what an agent's executor can say besides an event: pieces of
// output, a question in a terminal state, a refusal.
func TestAgentAnswers(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	text := func(words string) []*pawlv1.Part {
		return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: words}}}
	}
	stop := s.work(ctx, pawl.WorkerConfig{ID: "w", Prompts: map[string]pawl.TurnFunc{
		"counter": func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
			view := t.Assignment.GetTurn()
			if !view.GetTerminal() {
				if err := t.Write(ctx, &pawlv1.OutputPiece{Id: "draft", Parts: text("half")}); err != nil {
					return pawl.Completion{}, err
				}
				return pawl.Completion{Event: "Enough"}, nil
			}
			if len(view.GetMessages()) == 0 {
				return pawl.Completion{Output: text("which?"), Await: pawlv1.Awaiting_AWAITING_INPUT}, nil
			}
			return pawl.Completion{}, &pawl.Failure{Code: "NOT_MINE", Message: "ask another", Reject: true}
		},
	}})
	defer stop()
	run := s.start(ctx)
	waiting, err := s.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run, Until: pawlv1.WaitUntil_WAIT_UNTIL_WAITING})
	if err != nil || waiting.GetRun().GetAwaiting() != pawlv1.Awaiting_AWAITING_INPUT || waiting.GetRun().GetState() != "end" {
		fails, _ := s.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_FAILED}})
		t.Fatalf("the run does not ask: %v, %v; %v", waiting.GetRun().GetStatus(), err, fails)
	}
	if _, err := s.runs.SendInput(ctx, &pawlv1.SendInputRequest{RunId: run, Parts: text("that one")}); err != nil {
		t.Fatal(err)
	}
	got := s.ended(ctx, run)
	if got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_FAILED || got.GetReason() != "rejected" {
		t.Fatalf("ended %v", got)
	}
	list, err := s.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_OUTPUT_WRITTEN}})
	if err != nil || len(list.GetRecords()) != 1 || list.GetRecords()[0].GetOutputWritten().GetPiece().GetId() != "draft" {
		t.Fatalf("pieces %v, %v", list, err)
	}
}
