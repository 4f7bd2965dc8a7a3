package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// complete ends the open turn with its output. The artifacts of the completion are stored once: with the Transition, Ended
// or CompensationStarted that follows, or else with the TurnCompleted. If the turn violates a validator, its attempt fails
// instead, and neither the output nor the artifacts are stored.
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

// proceed continues the run after a completed turn: it ends the run, makes a transition, or opens a further turn for
// queued inputs and steering messages. Otherwise the run waits.
func (t *txn) proceed(c *machine.CompleteTurn, done *machine.TurnCompleted, seq uint64) {
	switch {
	case t.endIfOverBudget(c.Event, c.Artifacts): // the run ends, perhaps after a compensation
	case t.node().Terminal && c.Await == machine.AwaitNothing:
		status, reason := OutcomeAt(t.node())
		t.end(ending{status: status, reason: reason, artifacts: c.Artifacts})
	case c.Event != "":
		t.move(entry{event: c.Event, cause: machine.CauseEvent, byAgent: true, artifacts: c.Artifacts})
	default:
		done.Artifacts = c.Artifacts
		t.write(c.Artifacts, seq)
		if len(t.s.Queue) > 0 || t.pendingSteering() > 0 {
			t.nextTurn()
		}
	}
}

// checkComplete checks the command that completes a turn. It returns the usage of the turn with its computed cost.
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

// assign records that the open turn is executed under the delivery `a` (one assignment of the turn to an executor).
// Each delivery to a worker is recorded once, together with the next record of the turn. A delivery without a
// worker is only stored in the state. The default step keys of a new delivery count from 1 again.
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

// clearBackoff ends the pause after a failed attempt. A request in the current attempt shows that the executor did not
// wait for the end of the pause.
func (t *txn) clearBackoff() {
	if t.s.Turn.NotBefore != 0 {
		t.turn().NotBefore = 0
	}
}

// fail applies the report that the execution of the open turn failed. If the same report was already applied and opened
// the current attempt, the disposition is IgnoredDuplicate.
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
		turn.LastFailure != [32]byte{} && turn.LastFailure == t.input.BodyHash
}

// turnFailed is the reason of a run that ended because its turn finally failed.
const turnFailed = "turn_failed"

// failTurn ends the current attempt of the turn. The caller sets in `failed` what it knows of the failure. failTurn
// sets the turn and the next attempt, and resets Retryable and Rejected if they cannot apply. Either the next attempt
// follows after a pause, or the run ends with the given reason or that of an exceeded budget. Pending steps belong to
// the visit and stay pending.
func (t *txn) failTurn(failed *machine.TurnFailed, reason string) {
	turn := t.turn()
	failed.TurnSeq, failed.Attempt = turn.Seq, turn.Attempt
	failed.Retryable = failed.Retryable && !isFinal(&t.g.Retry, failed.Error.Code)
	over := t.overBudget()
	if over == "" && failed.Retryable && turn.Attempt < AttemptsOf(t.g) {
		failed.Next = turn.Attempt + 1
		failed.NotBefore = AddCapped(t.input.At, int64(backoff(t.g.Retry, t.rules.jitter(t.s.RunID, turn.Seq, turn.Attempt), turn.Attempt)))
	}
	if failed.Next == 0 || !t.mayReject(failed.Rejected) {
		failed.Rejected = 0
	}
	t.record(failed)
	t.rejectAnswer(failed)
	t.afterFailure(turn, failed, over, reason)
}

// afterFailure opens the next attempt of the turn, or ends the run.
func (t *txn) afterFailure(turn *machine.Turn, failed *machine.TurnFailed, over, reason string) {
	if failed.Next == 0 {
		t.s.Turn = nil
	}
	switch {
	case over != "":
		t.end(ending{status: machine.BudgetExhausted, reason: over})
	case failed.Next != 0:
		turn.Attempt, turn.NotBefore = failed.Next, failed.NotBefore
		turn.Suspended, turn.Requests, turn.LastFailure = false, 0, t.input.BodyHash
		turn.Assigned = machine.Assignment{}
	case failed.Retryable:
		t.end(ending{status: machine.Escalated, reason: reason})
	default:
		t.end(ending{status: machine.Failed, reason: reason})
	}
}

// suspend releases the open turn, because its executor only waits for pending steps of the visit.
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

// markTurnReady makes the open turn ready, because its pause has ended or all steps that it waited for are answered.
// The turn will get a new execution, so its default step keys count from 1 again.
func (t *txn) markTurnReady() {
	turn := t.turn()
	turn.NotBefore, turn.Suspended, turn.Requests = 0, false, 0
	t.record(&machine.TurnReady{TurnSeq: turn.Seq, Attempt: turn.Attempt})
}

// loseTurn handles the loss of the turn's executor. A single lost connection has no effect here, because the dispatcher
// counts the lost connections. In a run with the execution CALLER, only the worker that serves the run can lose a turn.
// The assignment in the command names that worker.
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

// The validators of a prompt judge what a turn said before it is accepted (semantics §5, ADR 0103). The engine runs
// them and adds the first violation to the command. Then the attempt fails in the same way as if its executor had
// rejected the model's answer. The answer stays recorded and paid, the next attempt gets the reason, and the number of
// attempts is bounded.

// codeViolated is the error code of an attempt that failed because a validator was violated. The notice to the model and
// the error to the caller have the same code.
const codeViolated = "VALIDATOR_TRIGGERED"

// failValidator fails the attempt of the turn because a validator was violated. step is the model call whose answer is
// rejected. It is 0 if no answer is rejected. If the answer cannot be rejected, the model gets a notice of its own.
func (t *txn) failValidator(v *machine.Violation, used machine.Usage, step uint32) {
	message := fmt.Sprintf("validator %s: %s", v.ID, v.Reason)
	failed := &machine.TurnFailed{
		Error: machine.Fault{Code: codeViolated, Message: message}, Retryable: true, Usage: used, Rejected: step, Violation: v,
	}
	if v.Place != "" {
		message += " (" + v.Place + ")"
	}
	t.refusedErr = attemptFailed(codeViolated, message)
	t.failTurn(failed, "validator:"+v.ID)
	if failed.Next != 0 && failed.Rejected == 0 {
		t.addNotice(machine.NoticeAdded{Code: codeViolated, Text: "What you said here before was refused: " + failed.Error.Message + ". Say something else."}, true)
	}
}

// failLastAnswer fails a turn that its executor wants to end, because a validator was violated. It rejects the last
// answer of the model.
func (t *txn) failLastAnswer(v *machine.Violation, used machine.Usage) {
	last, _ := t.lastAnswer(t.s.Turn.Seq)
	t.failValidator(v, used, last.Step)
}

// denyRound fails the attempt of the turn because the turn has already made all model calls that max_rounds allows. It
// also rejects the last answer of the model. So the next attempt repeats only the last call, and uses the recorded
// answers of the calls before it.
func (t *txn) denyRound(c *machine.RequestModel) {
	t.assign(c.Assigned)
	t.refusedErr = attemptFailed(machine.MaxRounds, c.Denied.Message)
	last, _ := t.lastAnswer(c.TurnSeq)
	t.failTurn(&machine.TurnFailed{
		Error: machine.Fault{Code: machine.MaxRounds, Message: c.Denied.Message}, Retryable: true, Rejected: last.Step,
	}, turnFailed)
}

// attemptFailed returns the error that the caller gets although its command was recorded, as a failed attempt.
func attemptFailed(reason, message string) *machine.Error {
	return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: reason, Message: message + ". The attempt of the turn has failed"}
}

// The executor of a turn can reject a model's answer (semantics §13, ADR 0086). The answer stays recorded and paid. The
// next attempt of the turn makes the request again as another step, and that request contains the reason.

// answerRejected is the code of the notice that tells the model why its answer was rejected.
const answerRejected = "ANSWER_REJECTED"

// checkRejected returns an error if the step whose answer the executor rejects is not an answered model call of the
// visit.
func (t *txn) checkRejected(c *machine.FailTurn) error {
	if c.Rejected == 0 {
		return nil
	}
	if i := FindStep(t.s.Steps, c.Rejected); i >= 0 && t.isDropped(&t.s.Steps[i], c.Rejected) {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: "rejected_step",
		Message: fmt.Sprintf("step %d is no answered call of a model in this visit, or its answer was rejected before", c.Rejected),
	}
}

// isDropped reports whether the answer of the step p is dropped when the answer of the step `rejected` is rejected. Later
// answers of the open turn are dropped with it. The rejected answer may be of any turn of the visit, so IsTurnAnswer gets
// the step's own turn.
func (t *txn) isDropped(p *machine.ToolStep, rejected uint32) bool {
	return IsTurnAnswer(p, p.TurnSeq) && (p.Step == rejected || p.Step > rejected && p.TurnSeq == t.s.Turn.Seq)
}

// mayReject reports whether the answer of the step and the later answers of the turn can be dropped. They cannot if a
// tool call of one of them was already requested, because a new answer would make that call a second time.
func (t *txn) mayReject(rejected uint32) bool {
	for i := range t.s.Steps {
		call := t.s.Steps[i].Call
		if call == nil {
			continue
		}
		if of := FindStep(t.s.Steps, call.Step); of >= 0 && t.isDropped(&t.s.Steps[of], rejected) {
			return false
		}
	}
	return true
}

// rejectAnswer marks the rejected answer and the later answers of the turn as rejected, so that the next attempt makes
// these model calls again. It also adds a notice with the reason.
func (t *txn) rejectAnswer(failed *machine.TurnFailed) {
	if failed.Rejected == 0 {
		return
	}
	for i := range t.s.Steps {
		if t.isDropped(&t.s.Steps[i], failed.Rejected) {
			t.model(i).Rejected = true
		}
	}
	why := failed.Error.Code
	if failed.Error.Message != "" && failed.Error.Message != why {
		why += ": " + failed.Error.Message
	}
	t.addNotice(machine.NoticeAdded{Code: answerRejected, Text: "An answer that you gave here before was rejected, and is not shown: " + why + ". Give another answer."}, true)
}
