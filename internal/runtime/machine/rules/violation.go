package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// A prompt's validators judge what a turn said before it is taken (semantics §5, ADR 0103). The engine runs them and stamps the first
// violation into the command. Here the attempt fails, as if its executor had rejected the answer: the answer stays recorded and paid, the
// next attempt gets the reason, and the attempts are bounded.

// violated is the code of a failed attempt, of its notice and of the error to the caller.
const violated = "VALIDATOR_TRIGGERED"

// failValidator fails the attempt for a violation. step is the MODEL step with the answer that is rejected; 0 = no answer is rejected.
func (t *txn) failValidator(v *machine.Violation, used machine.Usage, step uint32) {
	message := fmt.Sprintf("validator %s: %s", v.ID, v.Reason)
	failed := &machine.TurnFailed{
		Error: machine.Fault{Code: violated, Message: message}, Retryable: true, Usage: used, Rejected: step, Violation: v,
	}
	if v.Place != "" {
		message += " (" + v.Place + ")"
	}
	t.refused = attemptFailed(violated, message)
	t.failTurn(failed, "validator:"+v.ID)
	if failed.Next != 0 && failed.Rejected == 0 {
		t.notice(machine.NoticeAdded{Code: violated, Text: "What you said here before was refused: " + failed.Error.Message + ". Say something else."}, true)
	}
}

// failLastAnswer is failValidator for a turn that ends: its last answer is rejected.
func (t *txn) failLastAnswer(v *machine.Violation, used machine.Usage) {
	last, _ := t.lastAnswer(t.s.Turn.Seq)
	t.failValidator(v, used, last.Step)
}

// denyRound fails the attempt because the turn has used up its rounds. The next attempt asks for the last of them again.
func (t *txn) denyRound(c *machine.RequestModel) {
	t.assign(c.Assigned)
	t.refused = attemptFailed(machine.MaxRounds, c.Denied.Message)
	last, _ := t.lastAnswer(c.TurnSeq)
	t.failTurn(&machine.TurnFailed{
		Error: machine.Fault{Code: machine.MaxRounds, Message: c.Denied.Message}, Retryable: true, Rejected: last.Step,
	}, turnFailed)
}

// attemptFailed returns the error for a command that was recorded as a failed attempt.
func attemptFailed(reason, message string) *machine.Error {
	return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: reason, Message: message + ". The attempt of the turn has failed"}
}
