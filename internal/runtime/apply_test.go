package runtime_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestReusedIDsAreNamed: the refusal names the field that the request has for
// its id.
func TestReusedIDsAreNamed(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), context.Background()
	run := r.start("s1").RunID
	control := func(note string) runtime.ControlRequest {
		return runtime.ControlRequest{RunRef: ref(run, everyone), ID: "id", Note: note}
	}
	calls := map[string]func(body string) error{
		"event_id": func(body string) error {
			view, err := r.GetTurn(ctx, ref(run, everyone))
			if err != nil {
				return err
			}
			_, err = r.EmitEvent(ctx, runtime.EmitRequest{
				RunRef: ref(run, everyone), Event: "Again", EventID: "id", TurnToken: view.Token,
				Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte(body)}},
			})
			return err
		},
		"message_id": func(body string) error {
			_, err := r.SendInput(ctx, runtime.InputRequest{
				RunRef: ref(run, everyone), MessageID: "id", Parts: []machine.Part{{Kind: machine.PartText, Text: body}},
			})
			return err
		},
		"write_id": func(body string) error {
			view, err := r.GetTurn(ctx, ref(run, everyone))
			if err != nil {
				return err
			}
			_, err = r.SetArtifacts(ctx, runtime.ArtifactsRequest{
				RunRef: ref(run, everyone), WriteID: "id", TurnToken: view.Token,
				Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte(body)}},
			})
			return err
		},
		"request_id": func(body string) error {
			_, err := r.PauseRun(ctx, control(body))
			if err == nil {
				_, err = r.ResumeRun(ctx, control(body))
			}
			return err
		},
	}
	for field, call := range calls {
		if err := call("a"); err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		err := call("b")
		wantReason(t, err, "ID_REUSED")
		if refusal, _ := errors.AsType[*machine.Error](err); refusal.Field != field {
			t.Errorf("field %q, want %q", refusal.Field, field)
		}
	}
}
