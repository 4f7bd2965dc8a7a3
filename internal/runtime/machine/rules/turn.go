package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// complete ends the open turn. The artifacts of the completion are stored once: with the Transition or
// Ended that follows. If none follows, they are stored with the TurnCompleted.
func (t *txn) complete(c *machine.CompleteTurn) error {
	used, err := t.checkComplete(c)
	if err != nil {
		return err
	}
	through, err := t.conversationThrough(c)
	if err != nil {
		return err
	}
	size := PartsBytes(c.Output) + MessagesBytes(c.Messages)
	if err := First(t.checkWrites(c.Artifacts), t.checkMessageBytes(size)); err != nil {
		return err
	}
	t.assign(c.Assigned)
	if c.Violation != nil {
		t.settle(used)
		t.failLastAnswer(c.Violation, used)
		return nil
	}
	done := &machine.TurnCompleted{
		TurnSeq: c.TurnSeq, Attempt: c.Attempt,
		Output: c.Output, Messages: c.Messages, Usage: used, Event: c.Event,
		Await: c.Await, Reply: c.Reply, ConversationThrough: through,
	}
	seq := t.record(done)
	t.s.MessageBytes += size
	if len(c.Output)+len(c.Messages) > 0 || c.ConversationThroughStep != 0 {
		t.addMessage(seq)
	}
	t.dropModels("turn_over")
	t.s.Turn, t.s.Awaiting = nil, c.Await
	t.settle(used)
	t.proceed(c, done, seq)
	return nil
}

// proceed continues the run after a completed turn: it ends the run, makes a transition, or opens the
// next turn.
func (t *txn) proceed(c *machine.CompleteTurn, done *machine.TurnCompleted, seq uint64) {
	switch {
	case t.endIfOverBudget(c.Event, c.Artifacts):
	case t.node().Terminal && c.Await == machine.AwaitNothing:
		status, reason := OutcomeAt(t.node())
		t.end(ending{status: status, reason: reason, artifacts: c.Artifacts})
	case c.Event != "":
		t.move(c.Event, machine.CauseEvent, c.Artifacts)
	default:
		done.Artifacts = c.Artifacts
		t.write(c.Artifacts, seq)
		if len(t.s.Queue) > 0 || t.pendingSteering() > 0 {
			t.nextTurn()
		}
	}
}

// checkComplete checks the command and returns the usage of the turn with its computed cost.
func (t *txn) checkComplete(c *machine.CompleteTurn) (used machine.Usage, err error) {
	if err := First(t.checkOpen(), t.checkTurn(c.TurnSeq, c.Attempt)); err != nil {
		return used, err
	}
	if c.Outside && c.Event != "" {
		return used, &machine.Error{
			Code: machine.CodePermissionDenied, Reason: "EVENT_NOT_ALLOWED", Field: "event",
			Message: fmt.Sprintf("state %q is moved by EmitEvent, its turn is completed without an event", t.s.Current),
		}
	}
	if used, err = t.price(c.Usage); err != nil {
		return used, err
	}
	if c.Event != "" && c.Await != machine.AwaitNothing {
		return used, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "AWAIT_WITH_EVENT", Field: "awaiting",
			Message: "a turn either moves the run or waits for an input",
		}
	}
	if c.Event != "" {
		return used, t.checkEvent(c.Event)
	}
	return used, nil
}

// assign records the delivery that executes the open turn. It records each delivery once, together with
// the turn's next record. A new delivery is a new execution, so its default step keys count from 1
// again.
func (t *txn) assign(a *machine.Assignment) {
	if a == nil || t.s.Turn == nil || *a == t.s.Turn.Assigned {
		return
	}
	turn := t.turn()
	turn.Assigned, turn.Requests = *a, 0
	if a.Worker != "" {
		t.record(&machine.TurnAssigned{TurnSeq: turn.Seq, Attempt: turn.Attempt, Assigned: *a})
	}
}

// clearBackoff ends the backoff of the turn. A request for the current attempt shows that the executor
// did not wait for the end of the backoff.
func (t *txn) clearBackoff() {
	if t.s.Turn.NotBefore != 0 {
		t.turn().NotBefore = 0
	}
}
