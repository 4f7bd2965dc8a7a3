package approval

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Changed is what a turn that is about to be shown to whoever executes its calls has to be
// answered first: the input that answers a call which was approved and is another now. Nil:
// each is the approved one. That an approval is over does not count here: nobody knows
// whether the call is under way.
func Changed(s *machine.State, steps []history.StepView) machine.Command {
	for i := range steps {
		if step := &steps[i]; !step.Omitted {
			if mismatch := changed(s, &step.ToolStep, step.Payload); mismatch != nil {
				return Refusal(&step.ToolStep, mismatch)
			}
		}
	}
	return nil
}

// Withhold takes those calls out of an answer to requests that are not the ones that were
// approved, and says so.
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
		if mismatch := changed(s, step, payload); mismatch != nil {
			answer.Denial, answer.Payload = &machine.Denial{Code: MismatchCode, Message: mismatch.Message}, nil
			answer.Step = 0
		}
	}
}

// Given lists the calls of an answer to requests that its caller may make: those that were
// approved, and those that the caller said it makes. What agents are asked is not among them.
func Given(s *machine.State, answers []history.StepAnswer) []*machine.ToolStep {
	var given []*machine.ToolStep
	for i := range answers {
		step := stepOf(s, answers[i].Step)
		if step != nil && !step.Delegation && (step.Approval != nil || step.ByCaller) && step.Dispatchable() {
			given = append(given, step)
		}
	}
	return given
}

// InTime is the error of an approval that is over: [ErrExpired].
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

// changed says how a call that may go out differs from the approved one; nil: it does not.
func changed(s *machine.State, step *machine.ToolStep, payload []byte) *Mismatch {
	if step.Approval == nil || !step.AwaitingAnswer() || step.HeldForApproval() {
		return nil
	}
	mismatch, _ := errors.AsType[*Mismatch](Verify(s, step, payload, 0))
	return mismatch
}
