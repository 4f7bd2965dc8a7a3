package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// An executor can reject a model's answer (semantics §13, ADR 0086). The answer stays recorded and paid. The next attempt of the turn
// requests the round again as another step, and that request contains the reason.

// answerRejected is the code of the notice that contains the reason why the executor rejected the
// model's answer.
const answerRejected = "ANSWER_REJECTED"

// checkRejected returns an error if the rejected step is not an answered MODEL step of the visit.
func (t *txn) checkRejected(c *machine.FailTurn) error {
	if c.Rejected == 0 {
		return nil
	}
	if i := FindStep(t.s.Steps, c.Rejected); i >= 0 && t.falls(&t.s.Steps[i], c.Rejected) {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: "rejected_step",
		Message: fmt.Sprintf("step %d is no answered call of a model in this visit, or its answer was rejected before", c.Rejected),
	}
}

// falls reports whether the answer of the step is dropped. This is the case for the rejected answer and
// for later answers of the open turn.
func (t *txn) falls(p *machine.ToolStep, rejected uint32) bool {
	return IsTurnAnswer(p, p.TurnSeq) && (p.Step == rejected || p.Step > rejected && p.TurnSeq == t.s.Turn.Seq)
}

// mayReject reports whether the answers can be dropped. They cannot be dropped if a tool call of one of
// them was requested, because the new round would make that call a second time.
func (t *txn) mayReject(rejected uint32) bool {
	for i := range t.s.Steps {
		call := t.s.Steps[i].Call
		if call == nil {
			continue
		}
		if of := FindStep(t.s.Steps, call.Step); of >= 0 && t.falls(&t.s.Steps[of], rejected) {
			return false
		}
	}
	return true
}

// rejectAnswer marks the rejected round and the later rounds of the turn as rejected, so that they are requested again. It also adds a
// notice with the reason.
func (t *txn) rejectAnswer(failed *machine.TurnFailed) {
	if failed.Rejected == 0 {
		return
	}
	for i := range t.s.Steps {
		if t.falls(&t.s.Steps[i], failed.Rejected) {
			t.model(i).Rejected = true
		}
	}
	why := failed.Error.Code
	if failed.Error.Message != "" && failed.Error.Message != why {
		why += ": " + failed.Error.Message
	}
	t.notice(machine.NoticeAdded{Code: answerRejected, Text: "An answer that you gave here before was rejected, and is not shown: " + why + ". Give another answer."}, true)
}
