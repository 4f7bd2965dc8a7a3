package rules

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestForkCountsToolsAlone: calls of models in a turn that a fork takes over do not count as tool
// calls. So max_tool_calls_per_turn means in the fork what it means in the source.
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

// TestForkHearsOnce: a fork requires a message that no model had received in its source. The answer
// to a request that contains the message fulfils this, even if the source had made the same request.
func TestForkHearsOnce(t *testing.T) {
	t.Parallel()
	l, _ := answeredModel(t)
	fork := newLedger(t, l.g)
	command := func(l *ledger, c machine.Command) {
		t.Helper()
		if _, err := l.apply(machine.Input{At: epoch, Principal: "app", Command: c, Semantics: machine.Current}); err != nil {
			t.Fatalf("%T: %v", c, err)
		}
	}
	command(l, machine.AnswerModel{TurnSeq: 1, TurnAttempt: 1, Step: 3, Attempt: 1, Error: machine.Fault{Code: "MODEL_503"}, Final: true})
	c := l.forkAt(l.state.Seq, true)
	c.RunID, c.Execution, c.Queued = "F", machine.Caller, []machine.QueuedInput{{Steer: "Go left."}}
	command(fork, c)
	command(fork, machine.RequestModel{TurnSeq: 1, Attempt: 1, Round: 2, Model: &machine.ModelRequest{Model: "m", IncludedSeqs: []uint64{2}}})
	asked := fork.state.Steps[1]
	if len(fork.state.RequiredMessages) != 1 || asked.RequestSeq < 2 {
		t.Fatalf("%+v is to be heard, the request is record %d", fork.state.RequiredMessages, asked.RequestSeq)
	}
	command(fork, machine.AnswerModel{TurnSeq: 1, TurnAttempt: 1, Step: asked.Step, Attempt: asked.Attempt, Answer: &machine.ModelAnswer{}})
	if len(fork.state.RequiredMessages) != 0 {
		t.Errorf("it was heard, and is to be heard: %+v", fork.state.RequiredMessages)
	}
	fork.replay()
}
