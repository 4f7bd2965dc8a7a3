package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants are the reasons why a turn or step was closed without an answer of its own.
const (
	whyOutsideEvent = "outside_event"
	whyStateTimeout = "state_timeout"
	whyVisitLeft    = "visit_left"
	whyRunEnded     = "run_ended"
	whyCompensation = "compensation"
	whyAnswered     = "answered"
)

// emit applies an event from the turn's holder or from outside.
func (t *txn) emit(c *machine.EmitEvent) error {
	if err := t.checkEmit(c); err != nil {
		return err
	}
	if err := t.checkWrites(c.Artifacts); err != nil {
		return err
	}
	if c.Outside {
		t.abandonTurn(whyOutsideEvent)
		t.resetProgress()
	} else {
		t.assign(c.Assigned)
	}
	if c.Violation != nil {
		t.failLastAnswer(c.Violation, machine.Usage{})
		return nil
	}
	t.move(c.Event, machine.CauseEvent, c.Artifacts)
	return nil
}

func (t *txn) checkEmit(c *machine.EmitEvent) error {
	if err := First(t.checkOpen(), t.checkUnpaused()); err != nil {
		return err
	}
	if !c.Outside && t.s.Turn == nil {
		return t.checkTurn(t.s.VisitSeq, 1)
	}
	return t.checkEvent(c.Event)
}

// move follows a declared event. If the run is over a budget, the run ends instead.
func (t *txn) move(event string, cause machine.Cause, artifacts []machine.ArtifactWrite) {
	if t.endIfOverBudget(event, artifacts) {
		return
	}
	from := t.node()
	if t.g.CompensateOn[event] && t.startCompensation(ending{event: event, intended: from.OnEvent[event], artifacts: artifacts}, cause) {
		return
	}
	e := entry{from: from, event: event, target: from.OnEvent[event], cause: cause, artifacts: artifacts}
	e.noProgress = t.madeNoProgress(e)
	t.enter(e)
}

// abandonTurn closes the open turn without a result. If no turn is open, it does nothing.
func (t *txn) abandonTurn(why string) {
	turn := t.s.Turn
	if turn == nil {
		return
	}
	t.record(&machine.TurnAbandoned{TurnSeq: turn.Seq, Attempt: turn.Attempt, Why: why})
	t.s.Turn = nil
}
