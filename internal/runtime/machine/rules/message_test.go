package rules

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestNotice: a notice is in the next request until one that has it is answered, and is no
// input of any turn.
func TestNotice(t *testing.T) {
	t.Parallel()
	g, err := parseGraph("entry a\nstate a: Go->b\nstate b: terminal")
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(t, g)
	command := func(c machine.Command) error {
		_, err := l.apply(machine.Input{At: epoch, Principal: "p", Command: c, Semantics: machine.Current})
		return err
	}
	ask := func(heeded ...uint64) error {
		return command(machine.RequestModel{
			TurnSeq: l.state.Turn.Seq, Attempt: 1, Round: 1, Model: &machine.ModelRequest{Model: "m", IncludedSeqs: heeded}, Bound: machine.Usage{Model: "m"},
		})
	}
	if err := command(machine.Start{RunID: "R", Execution: machine.Caller}); err != nil {
		t.Fatal(err)
	}
	tx, err := newTxn(g, l.state, machine.Input{At: epoch, Semantics: machine.Current})
	if err != nil {
		t.Fatal(err)
	}
	tx.addNotice(machine.NoticeAdded{Code: "BUDGET_80", Text: "80 % of the budget is used"}, false)
	l.state = tx.s
	seq := l.state.Seq
	if want := (machine.RequiredMessage{Seq: seq, Notice: true}); len(l.state.RequiredMessages) != 1 || l.state.RequiredMessages[0] != want {
		t.Fatalf("the run has to tell %+v", l.state.RequiredMessages)
	}
	tx.s.Turn = nil
	if tx.nextTurn(); len(tx.s.Queue) > 0 || len(tx.messages) > 0 || len(tx.s.RequiredMessages) != 1 {
		t.Errorf("a turn began with a notice: %+v", tx.messages)
	}
	l.state = tx.s
	if ask() == nil {
		t.Error("a request without the notice was taken")
	}
	if err := ask(seq); err != nil {
		t.Fatal(err)
	}
	answer := machine.AnswerModel{TurnSeq: l.state.Turn.Seq, TurnAttempt: 1, Step: 1, Attempt: 1, Answer: &machine.ModelAnswer{}}
	if err := command(answer); err != nil {
		t.Fatal(err)
	}
	if len(l.state.RequiredMessages) != 0 {
		t.Errorf("after an answer to a request that has it: %+v", l.state.RequiredMessages)
	}
}
