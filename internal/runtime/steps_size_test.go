package runtime_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// largeVisit is a run whose turn has that many answered steps of 4 MiB each, and what
// asks for them again.
func (r *rig) largeVisit(steps int) (run runtime.Answer, requests []machine.StepRequest) {
	r.t.Helper()
	run = r.start("s1")
	large := fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), 4<<20))
	for i := range steps {
		requests = append(requests, call("run_tests", fmt.Sprintf(`{"path":"%d"}`, i)))
		asked, err := r.request(run.RunID, run.Turn.Token, requests[i])
		if err != nil {
			r.t.Fatal(err)
		}
		_, err = r.ResolveStep(context.Background(), runtime.ResolveRequest{
			RunRef: ref(run.RunID, everyone), TurnToken: run.Turn.Token, Step: asked.Steps[0].Step, Tool: "run_tests", Attempt: 1, OK: true, Result: large,
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return run, requests
}

// TestLargeVisit: a turn carries the newest 16 MiB of its visit's steps, and says of
// the others that they are left out; asked for by their keys, nothing of them is lost.
func TestLargeVisit(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), context.Background()
	run, requests := r.largeVisit(5)
	turn, err := r.GetTurn(ctx, ref(run.RunID, everyone))
	if err != nil || len(turn.Steps) != 5 {
		t.Fatalf("%d steps, %v", len(turn.Steps), err)
	}
	held := 0
	for i, s := range turn.Steps {
		held += len(s.Payload) + len(s.Result)
		if s.Omitted != (i < 2) || s.Omitted == (len(s.Result) > 0) || s.Omitted == (len(s.Payload) > 0) || s.Status != machine.StepStatusOK {
			t.Errorf("step %d: left out %v, %d bytes, %v", i, s.Omitted, len(s.Result), s.Status)
		}
	}
	if held > history.MaxStepBytes {
		t.Errorf("the turn carries %d bytes of steps, want at most %d", held, history.MaxStepBytes)
	}
	all, err := r.request(run.RunID, turn.Token, requests...)
	if err != nil || len(all.Steps) != 5 {
		t.Fatalf("%d outcomes, %v", len(all.Steps), err)
	}
	for i, s := range all.Steps {
		if s.Omitted != (i > 2) || s.Omitted == (len(s.Result) > 0) || !s.Replayed {
			t.Errorf("outcome %d: left out %v, %d bytes", i, s.Omitted, len(s.Result))
		}
	}
	turn, err = r.GetTurn(ctx, ref(run.RunID, everyone))
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		one, err := r.request(run.RunID, turn.Token, requests[i])
		if err != nil || len(one.Steps[0].Result) < 4<<20 || one.Steps[0].Omitted {
			t.Fatalf("request %d alone: %d bytes, %v", i, len(one.Steps[0].Result), err)
		}
	}
}
