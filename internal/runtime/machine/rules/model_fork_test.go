package rules

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestForkCountsToolsAlone: what models were asked in the turn that a fork takes over is no
// tool call of it, so max_tool_calls_per_turn means in the fork what it means in the source.
func TestForkCountsToolsAlone(t *testing.T) {
	t.Parallel()
	l, _ := answeredModel(t)
	answer := machine.ResolveStep{Step: 2, Tool: "t0", OK: true, Result: []byte("1")}
	if _, err := l.apply(machine.Input{At: epoch, Principal: "app", Command: answer, Semantics: machine.Current}); err != nil {
		t.Fatal(err)
	}
	c := l.forkAt(l.state.Seq, true)
	c.RunID, c.Execution = "F", machine.Caller
	fork := newLedger(t, l.g)
	if _, err := fork.apply(machine.Input{At: epoch, Principal: "app", Command: c, Semantics: machine.Current}); err != nil {
		t.Fatal(err)
	}
	if got, want := fork.state.Turn.Calls, l.state.Turn.Calls; got != want || want != 1 {
		t.Errorf("the fork's turn has made %d tool calls, the source's %d", got, want)
	}
	fork.replay()
}
