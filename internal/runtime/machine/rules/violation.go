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

// failValidator fails the attempt for a violation. step is the MODEL step with the answer that is rejected; 0 = no answer is.
func (t *txn) failValidator(v *machine.Violation, used machine.Usage, step uint32) {
	message := fmt.Sprintf("validator %s: %s", v.ID, v.Reason)
	t.refused = &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: violated, Field: v.Place,
		Message: message + ". The attempt of the turn has failed",
	}
	failed := &machine.TurnFailed{
		Error: machine.Fault{Code: violated, Message: message}, Retryable: true, Usage: used, Rejected: step, Violation: v,
	}
	t.failTurn(failed, "validator:"+v.ID)
	if failed.Next != 0 && failed.Rejected == 0 {
		t.notice(machine.NoticeAdded{Code: violated, Text: "What you said here before was refused: " + message + ". Say something else."}, true)
	}
}

// denyRound fails the attempt because the turn has used up its rounds. The next attempt asks for the last of them again.
func (t *txn) denyRound(c *machine.RequestModel) {
	t.assign(c.Assigned)
	t.refused = &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: machine.MaxRounds, Field: "request", Message: c.Denied.Message + ". The attempt of the turn has failed",
	}
	t.failTurn(&machine.TurnFailed{
		Error: machine.Fault{Code: machine.MaxRounds, Message: c.Denied.Message}, Retryable: true, Rejected: t.lastAnswerOf(c.TurnSeq),
	}, turnFailed)
}

// lastAnswerOf returns the last answered MODEL step of a turn; 0 = the turn has none.
func (t *txn) lastAnswerOf(turn uint64) uint32 {
	step := uint32(0)
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; IsTurnAnswer(p, turn) && p.Step > step {
			step = p.Step
		}
	}
	return step
}
