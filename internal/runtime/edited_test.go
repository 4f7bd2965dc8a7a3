package runtime_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestWhoAsksAndUndoesIsToldWhatWentOut: a person edits the arguments of a call. The tool that answers
// whether the call happened and the tool that compensates it both receive the edited arguments.
func TestWhoAsksAndUndoesIsToldWhatWentOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answered bool
		ends     func(r *rig, run string)
	}{
		"undone": {true, func(r *rig, run string) {
			if _, err := r.Apply(t.Context(), runtime.Request{RunRef: ref(run, boss), Command: machine.Cancel{}}); err != nil {
				t.Fatal(err)
			}
		}},
		"asked about": {false, func(r *rig, run string) {
			if _, err := r.ApplyInternal(t.Context(), runtime.RunKey{ID: run}, machine.LoseStep{Step: 1, Attempt: 1, Worker: "w"}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.register("", strings.NewReplacer(`"version": "1.0.0",`, `"version": "2.0.0",`, `"x_pawl": {`,
				`"x_pawl": {"tools": {"run_tests": {"approve": "always", "on_unknown": "reconcile", "reconcile": "asks", "compensate": "write_file"}},`,
				`"write_file": {`, `"asks": {"name": "asks", "description": "Knows"}, "write_file": {`).Replace(loopPack))
			started := r.start("a")
			run := started.RunID
			if _, err := r.request(run, started.Turn.Token, call("run_tests", `{"path": "asked"}`)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Apply(t.Context(), runtime.Request{RunRef: ref(run, everyone), Command: machine.DecideStep{
				Step: 1, Digest: r.view(run).State.Steps[0].Approval.Digest, Verdict: machine.Edited, Payload: []byte(`{"path": "approved"}`),
			}}); err != nil {
				t.Fatal(err)
			}
			if c.answered {
				r.answer(run, started.Turn.Token, 1, "run_tests", `true`)
			}
			c.ends(r, run)
			asked := r.records(run, machine.RecStepRequested)
			var told struct {
				Payload struct{ Path string }
			}
			last := asked[len(asked)-1].Body.(*machine.StepRequested)
			if err := json.Unmarshal(last.Payload, &told); err != nil || last.About == nil {
				t.Fatalf("%s: %v", last.Payload, err)
			}
			if told.Payload.Path != "approved" {
				t.Errorf("%s is told %s", last.Tool, last.Payload)
			}
		})
	}
}
