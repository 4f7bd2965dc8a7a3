package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// fire applies a durable timer that is due. If the timer does not match the state, it was replaced or
// cleared in the meantime, and fire does nothing.
func (t *txn) fire(c *machine.FireTimer) machine.Disposition {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal
	}
	// The timer was due when it fired, so the input is not earlier than c.Due, even if the clock was
	// set back afterwards.
	at := t.input.At
	t.input.At = max(at, c.Due)
	disposition := t.fireOne(c)
	if disposition == machine.IgnoredStale {
		t.input.At = at
	}
	return disposition
}

// fireOne applies the timer if the state still has a timer of this kind with this due time.
func (t *txn) fireOne(c *machine.FireTimer) machine.Disposition {
	switch c.Kind {
	case machine.TimerWall:
		if timer := WallTimer(t.s); timer.Due != 0 && timer.Due == c.Due {
			t.end(ending{status: machine.BudgetExhausted, reason: "max_wall_time_sec"})
			return machine.Accepted
		}
	case machine.TimerRetry:
		if timer := RetryTimer(t.s); timer.Due != 0 && timer.Due == c.Due && timer.Turn == c.Turn {
			t.markTurnReady()
			return machine.Accepted
		}
	case machine.TimerState:
		if timer := StateTimer(t.s); timer.Due != 0 && timer.Due == c.Due {
			t.abandonTurn(whyStateTimeout)
			t.move(entry{event: t.node().Timeout.Event, cause: machine.CauseTimeout})
			return machine.Accepted
		}
	case machine.TimerStep:
		i := FindStep(t.s.Steps, c.Step)
		if i >= 0 && t.s.Steps[i].AwaitingAnswer() && t.s.Steps[i].Deadline == c.Due {
			if t.s.Steps[i].Model != nil {
				return t.expireModel(i)
			}
			if t.s.Steps[i].HeldForApproval() {
				return t.answerUndecided(i)
			}
			return t.handleUnknown(i, machine.Fault{Code: "DEADLINE_EXCEEDED", Message: "no answer within the step's deadline"}, "")
		}
	}
	return machine.IgnoredStale
}
