package pawl_test

import (
	"context"
	"testing"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestNotedResponse: the provider's id of a response that is being made is handed to the
// execution that comes after the one that noted it.
func TestNotedResponse(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	ctx := testContext(t)
	asked := &pawlv1.ModelRequest{Model: "gpt"}
	handed := make(chan string, 2)
	defer s.work(ctx, pawl.WorkerConfig{ID: "w", Turns: 1, Prompts: map[string]pawl.TurnFunc{
		"counter": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
			if turn.Assignment.GetTurn().GetTerminal() {
				return pawl.Completion{}, nil
			}
			got, err := turn.RequestModel(ctx, 1, asked, nil)
			if err != nil {
				return pawl.Completion{}, err
			}
			step := got.GetStep()
			if id := step.GetModel().GetResponseId(); step.GetAttempt() > 1 {
				handed <- id
				return pawl.Completion{Event: "Enough"}, nil
			}
			noted, err := turn.UpdateModelCall(ctx, step.GetStep(), step.GetAttempt(), "resp-1")
			if err != nil || noted.GetDisposition() != pawlv1.Disposition_DISPOSITION_ACCEPTED {
				t.Errorf("UpdateModelCall %v, %v", noted, err)
			}
			return pawl.Completion{}, &pawl.Failure{Code: "LOST"}
		},
	}})()
	s.ended(ctx, s.start(ctx))
	if id := <-handed; id != "resp-1" {
		t.Errorf("the second execution is handed %q", id)
	}
}
