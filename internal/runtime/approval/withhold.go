package approval

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// WithholdChanged checks the approved calls of a turn before the turn is sent to its executor. If a call now differs from what was
// approved, it returns the input that answers the call with an error. Otherwise it returns nil. It does not check calls whose payload is
// left out of the turn. An expired approval is not an error here, because the call may already be in progress.
func WithholdChanged(s *machine.State, steps []history.StepView) machine.Command {
	for i := range steps {
		if step := &steps[i]; !step.Omitted {
			if mismatch := findMismatch(s, &step.ToolStep, step.Payload); mismatch != nil {
				return Refusal(&step.ToolStep, mismatch)
			}
		}
	}
	return nil
}

// Withhold checks the calls in an answer. It replaces each call that differs from the approved call by an error. It does not check calls
// whose payload is left out of the answer.
func Withhold(s *machine.State, c machine.Command, answers []history.StepAnswer) {
	asked, ok := c.(machine.RequestSteps)
	for i := 0; ok && s != nil && i < min(len(answers), len(asked.Requests)); i++ {
		answer, payload := &answers[i], asked.Requests[i].Payload
		if answer.PayloadSeq != 0 {
			payload = answer.Payload
		}
		step := stepOf(s, answer.Step)
		if step == nil || answer.Omitted {
			continue
		}
		if mismatch := findMismatch(s, step, payload); mismatch != nil {
			answer.Denial, answer.Payload = &machine.Denial{Code: MismatchCode, Message: mismatch.Message}, nil
			answer.Step = 0
		}
	}
}

// CallerSteps returns the calls in an answer that the caller may make itself: the approved calls, and the calls that the
// caller declared as its own. Delegations to agents are not included.
func CallerSteps(s *machine.State, answers []history.StepAnswer) []*machine.ToolStep {
	var given []*machine.ToolStep
	for i := range answers {
		step := stepOf(s, answers[i].Step)
		if step != nil && !step.Delegation && (step.Approval != nil || step.ByCaller) && step.Dispatchable() {
			given = append(given, step)
		}
	}
	return given
}

// InTime returns [ErrExpired] if the approval of a step has expired.
func InTime(step *machine.ToolStep, now int64) error {
	if a := step.Approval; a != nil && a.Expires != 0 && now >= a.Expires {
		return ErrExpired
	}
	return nil
}

func stepOf(s *machine.State, number uint32) *machine.ToolStep {
	for i := range s.Steps {
		if s.Steps[i].Step == number {
			return &s.Steps[i]
		}
	}
	return nil
}

// findMismatch returns how a call that may be sent differs from the approved call. It returns nil if they are equal or the
// call needs no approval.
func findMismatch(s *machine.State, step *machine.ToolStep, payload []byte) *Mismatch {
	if step.Approval == nil || !step.AwaitingAnswer() || step.HeldForApproval() {
		return nil
	}
	mismatch, _ := errors.AsType[*Mismatch](Verify(s, step, payload, 0))
	return mismatch
}
