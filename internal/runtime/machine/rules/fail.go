package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// fail applies the report of a failed execution of the open turn. If the current attempt was opened by
// the same report, the report is a repeat, and the disposition is duplicate instead of stale.
func (t *txn) fail(c *machine.FailTurn) (machine.Disposition, error) {
	if err := t.checkOpen(); err != nil {
		return 0, err
	}
	if t.repeatsFailure(c) {
		return machine.IgnoredDuplicate, nil
	}
	used, unpriced := t.price(c.Usage)
	if err := First(t.checkTurn(c.TurnSeq, c.Attempt), unpriced, CheckReject(c), t.checkRejected(c)); err != nil {
		return 0, err
	}
	t.assign(c.Assigned)
	t.settle(used)
	reason := turnFailed
	if c.Reject {
		reason = "rejected"
	}
	t.failTurn(&machine.TurnFailed{Error: c.Error, Retryable: c.Retryable, Usage: used, Rejected: c.Rejected}, reason)
	return machine.Accepted, nil
}

func (t *txn) repeatsFailure(c *machine.FailTurn) bool {
	turn := t.s.Turn
	return turn != nil && turn.Seq == c.TurnSeq && turn.Attempt == c.Attempt+1 &&
		turn.LastFailure != [32]byte{} && turn.LastFailure == t.in.BodyHash
}

// turnFailed is the reason of a run that ended because its turn failed.
const turnFailed = "turn_failed"

// failTurn ends the current attempt of the turn and sets the other fields of `failed`. Either the next
// attempt follows after a pause, or the run ends with the given reason. Pending steps belong to the
// visit and stay pending.
func (t *txn) failTurn(failed *machine.TurnFailed, reason string) {
	turn := t.turn()
	failed.TurnSeq, failed.Attempt = turn.Seq, turn.Attempt
	failed.Retryable = failed.Retryable && !isFinal(&t.g.Retry, failed.Error.Code)
	over := t.overBudget()
	if over == "" && failed.Retryable && turn.Attempt < AttemptsOf(t.g) {
		failed.Next = turn.Attempt + 1
		failed.NotBefore = AddCapped(t.in.At, int64(backoff(t.g.Retry, t.rules.jitter(t.s.RunID, turn.Seq, turn.Attempt), turn.Attempt)))
	}
	if failed.Next == 0 || !t.mayReject(failed.Rejected) {
		failed.Rejected = 0
	}
	t.record(failed)
	t.rejectAnswer(failed)
	t.afterFailure(turn, failed, over, reason)
}

// afterFailure opens the next attempt, or ends the run.
func (t *txn) afterFailure(turn *machine.Turn, failed *machine.TurnFailed, over, reason string) {
	if failed.Next == 0 {
		t.s.Turn = nil
	}
	switch {
	case over != "":
		t.end(ending{status: machine.BudgetExhausted, reason: over})
	case failed.Next != 0:
		turn.Attempt, turn.NotBefore = failed.Next, failed.NotBefore
		turn.Suspended, turn.Requests, turn.LastFailure = false, 0, t.in.BodyHash
		turn.Assigned = machine.Assignment{}
	case failed.Retryable:
		t.end(ending{status: machine.Escalated, reason: reason})
	default:
		t.end(ending{status: machine.Failed, reason: reason})
	}
}

// suspend releases a turn whose executor only waits for pending steps of the visit.
func (t *txn) suspend(c *machine.SuspendTurn) error {
	if err := First(t.checkOpen(), t.checkTurn(c.TurnSeq, c.Attempt)); err != nil {
		return err
	}
	pending := AwaitedSteps(t.s)
	if len(pending) == 0 {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "NOTHING_PENDING", Field: "turn_seq",
			Message: "no step of this visit is pending: the turn would wait for nothing",
		}
	}
	if t.s.Turn.Suspended {
		return nil
	}
	t.assign(c.Assigned)
	t.record(&machine.TurnSuspended{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Pending: pending})
	t.clearBackoff()
	t.turn().Suspended = true
	return nil
}

// markTurnReady makes an open turn ready, because its backoff has ended or all the steps that it waited
// for are answered. The next execution is a new execution, so its default step keys count from 1 again.
func (t *txn) markTurnReady() {
	turn := t.turn()
	turn.NotBefore, turn.Suspended, turn.Requests = 0, false, 0
	t.record(&machine.TurnReady{TurnSeq: turn.Seq, Attempt: turn.Attempt})
}

// loseTurn handles the loss of the turn's executor. A single lost connection has no effect here,
// because the dispatcher counts deliveries. In a run with the execution CALLER, only the worker that
// serves the run can lose a turn. The assignment names that worker.
func (t *txn) loseTurn(c *machine.LoseTurn) machine.Disposition {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal
	}
	if !t.s.Execution.Leased() && (c.Assigned == nil || !c.LeaseExpired && !c.Undeliverable) || t.checkTurn(c.TurnSeq, c.Attempt) != nil {
		return machine.IgnoredStale
	}
	switch {
	case c.Undeliverable:
		t.assign(c.Assigned)
		t.end(ending{status: machine.Escalated, reason: "turn_undeliverable"})
	case c.LeaseExpired:
		t.assign(c.Assigned)
		t.failTurn(&machine.TurnFailed{Error: machine.Fault{Code: "LEASE_EXPIRED", Message: "the worker let the turn's lease run out"}, Retryable: true}, turnFailed)
	}
	return machine.Accepted
}
