package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The functions below handle model calls with an unknown outcome (semantics §9): the execution that
// made the call was lost, or the deadline has passed. The pack's on_unknown decides what happens next.
// The usage of such a call is counted when it is reported later.

// executionLost and deadlineExceeded are the errors of model calls that received no answer.
var (
	executionLost    = machine.Fault{Code: "EXECUTION_LOST", Message: "the execution that made the call is over"}
	deadlineExceeded = machine.Fault{Code: "DEADLINE_EXCEEDED", Message: "no answer within the step's deadline"}
)

// recordUnknownAttempt records that the outcome of an attempt of a model call is unknown.
func (t *txn) recordUnknownAttempt(step *machine.ToolStep, why machine.Fault) uint64 {
	t.keepReservation(step)
	return t.record(&machine.StepResolved{
		Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Unknown: true, Kind: machine.KindModel, Error: why,
	})
}

// handleLostCall decides what happens to a pending model call when a new execution of the turn requests the same
// call. With on_unknown retry it returns false, and the call is made again. Otherwise it returns true,
// because the request is already answered. It also returns false for a call that is not pending.
func (t *txn) handleLostCall(i int, c *machine.RequestModel) bool {
	policy := t.g.ModelCalls.Unknown()
	if t.s.Steps[i].Status != machine.StepStatusPending || policy == machine.Retry {
		return false
	}
	t.assign(c.Assigned)
	t.clearBackoff()
	step := &t.steps()[i]
	seq := t.recordUnknownAttempt(step, executionLost)
	m := t.model(i)
	step.TurnSeq, m.TurnAttempt, m.By, m.Failed = c.TurnSeq, c.Attempt, ValueOf(c.Assigned), 0
	if policy == machine.Escalate {
		t.outcomes = []machine.StepOutcome{{Key: step.Key, Denial: t.escalateModel(step, seq)}}
		return true
	}
	t.settleStep(i, machine.StepStatusError, seq, [32]byte{})
	t.outcomes = []machine.StepOutcome{OutcomeOf(&t.s.Steps[i])}
	return true
}

// escalateModel ends the run because a model call has failed. It returns the denial for the execution
// that requested the call.
func (t *txn) escalateModel(step *machine.ToolStep, seq uint64) *machine.Denial {
	step.Status, step.AnswerSeq, step.Deadline = machine.StepStatusError, seq, 0
	if !t.endIfOverBudget("", nil) {
		t.end(ending{status: machine.Escalated, reason: "model_error:" + step.Tool})
	}
	status, reason := t.s.Status, t.s.Reason
	if t.s.Undo != nil {
		status, reason = t.s.Undo.Status, t.s.Undo.Reason
	}
	return &machine.Denial{Code: "RUN_TERMINAL", Message: fmt.Sprintf("the run ended %s (%s)", status, reason)}
}

// expireModel handles a model call that received no answer in time. Only an execution of the turn can
// make the call again. With on_unknown retry, the current attempt of the turn fails if it made the call,
// and its next attempt makes the call again. With on_unknown return, the step gets an error, and the turn
// continues. With on_unknown escalate, the run ends.
func (t *txn) expireModel(i int) machine.Disposition {
	step := &t.steps()[i]
	policy, live := t.g.ModelCalls.Unknown(), t.inProgress(step)
	seq := t.recordUnknownAttempt(step, deadlineExceeded)
	if policy == machine.Escalate {
		t.escalateModel(step, seq)
		return machine.DispEscalated
	}
	t.settleStep(i, machine.StepStatusError, seq, [32]byte{})
	if policy == machine.Retry && live {
		t.failTurn(&machine.TurnFailed{Error: deadlineExceeded, Retryable: true}, turnFailed)
	}
	return machine.Accepted
}

// inProgress reports whether the execution that last requested the model call is still the current
// execution of the turn.
func (t *txn) inProgress(step *machine.ToolStep) bool {
	turn, m := t.s.Turn, step.Model
	return turn != nil && !turn.Suspended && turn.Seq == step.TurnSeq && turn.Attempt == m.TurnAttempt &&
		(m.By == turn.Assigned || m.By == machine.Assignment{})
}

// checkAttempt returns an error for an answer to an attempt that was never made, or that another
// execution is making now.
//
// An answer to an earlier attempt is not refused here, because that attempt has ended. A restart can
// make the token of a turn invalid, so that a caller cannot prove that it executes the turn. It must
// then get a new token and repeat the answer, so that the model call need not be paid twice.
func (t *txn) checkAttempt(i int, c *machine.AnswerModel) error {
	if i < 0 || t.s.Steps[i].Model == nil {
		return nil
	}
	step := &t.s.Steps[i]
	if c.Attempt < 1 || c.Attempt > step.Attempt {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "NO_SUCH_ATTEMPT", Field: "attempt",
			Message: fmt.Sprintf("step %d is in attempt %d", step.Step, step.Attempt), Limit: int64(step.Attempt), Got: int64(c.Attempt),
		}
	}
	if step.Status != machine.StepStatusPending || c.Attempt != step.Attempt || t.requestedBy(step, c.TurnSeq, c.TurnAttempt, c.Assigned) ||
		!t.inProgress(step) || t.succeeds(c) {
		return nil
	}
	if c.Assigned == nil {
		return &machine.Error{
			Code: machine.CodePermissionDenied, Reason: "TURN_TOKEN_STALE", Field: "turn_token",
			Message: fmt.Sprintf("attempt %d of step %d is under way, and the token is not known: call GetTurn for a new one, and tell it again", step.Attempt, step.Step),
		}
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "STEP_NOT_HELD", Field: "step",
		Message: fmt.Sprintf("attempt %d of step %d is made by another execution", step.Attempt, step.Step),
	}
}

// succeeds reports whether the execution that answers received the turn after the last recorded
// execution. If so, the last recorded execution has ended.
func (t *txn) succeeds(c *machine.AnswerModel) bool {
	turn := t.s.Turn
	return c.Assigned != nil && c.TurnSeq == turn.Seq && c.TurnAttempt == turn.Attempt && c.Assigned.Delivery > turn.Assigned.Delivery
}

// settleStale counts the usage of a model call whose answer no execution waits for, because the step is
// answered, or because the execution or the run has ended. The engine ensures that an attempt is
// reported once. The usage is counted even if it has no price. It is not counted if the run has ended and
// consumed a lease.
func (t *txn) settleStale(c *machine.AnswerModel) (machine.Disposition, error) {
	ignored := machine.IgnoredStale
	if t.s.Status.Terminal() {
		ignored = machine.IgnoredTerminal
	}
	bound, unreported := t.releaseReservation(c.Step, c.Attempt)
	if unreported {
		c.Usage = t.reported(c, bound)
	}
	if used, err := t.price(c.Usage); err == nil {
		c.Usage = used
	}
	if u := &c.Usage; u.InputTokens|u.OutputTokens|u.CostMicro == 0 && u.ToolCalls == 0 && !unreported || closedLease(t.s) {
		return ignored, nil
	}
	note := &machine.ModelUpdated{Step: c.Step, Attempt: c.Attempt, Usage: c.Usage}
	if c.Answer != nil {
		note.ResponseID = c.Answer.ResponseID
	}
	t.record(note)
	t.settleModel(c.Step, c.Usage)
	return ignored, nil
}
