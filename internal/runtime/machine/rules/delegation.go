package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// noteDelegation records a change of the known state of an agent's task. It ignores a change that is
// for a finished step, for a step that waits for approval or for another attempt, a change that is
// already known, and every change after the end of the run.
func (t *txn) noteDelegation(c *machine.NoteDelegation) (machine.Disposition, error) {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal, nil
	}
	i := FindStep(t.s.Steps, c.Step)
	if i < 0 || t.s.Steps[i].Status != machine.StepStatusPending || t.s.Steps[i].Attempt != c.Attempt || t.s.Steps[i].HeldForApproval() {
		return machine.IgnoredStale, nil
	}
	step := &t.s.Steps[i]
	if c.Remote.Announces() && (t.s.Paused || ApprovalExpired(step, t.input.At)) {
		return machine.IgnoredStale, nil // the run is paused or the approval has expired, so no message may be sent
	}
	if err := First(CheckDelegation(step, c), t.checkMessageBytes(PartsBytes(c.Question))); err != nil {
		return 0, err
	}
	if step.Remote != nil && *step.Remote == c.Remote {
		return machine.IgnoredDuplicate, nil
	}
	t.record(&machine.StepDelegated{Step: c.Step, Tool: step.Tool, Attempt: c.Attempt, Remote: c.Remote, Question: c.Question})
	t.s.MessageBytes += PartsBytes(c.Question)
	remote := c.Remote
	t.steps()[i].Remote = &remote
	return machine.Accepted, nil
}

// answerDelegation records the answer to an agent's question and marks it to be sent to the agent.
func (t *txn) answerDelegation(c *machine.SendInput) error {
	i := FindStep(t.s.Steps, c.Step)
	if i < 0 || t.s.Steps[i].Status != machine.StepStatusPending || t.s.Steps[i].Remote == nil || t.s.Steps[i].Remote.Asking == machine.AwaitNothing {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ASKING", Field: "step",
			Message: fmt.Sprintf("step %d is no delegation that waits for an answer", c.Step),
		}
	}
	size := PartsBytes(c.Parts) + EnvelopeBytes(c.Envelope)
	if err := t.checkMessageBytes(size); err != nil {
		return err
	}
	seq := t.record(&machine.InputReceived{Parts: c.Parts, MessageID: t.input.ID, Envelope: c.Envelope, Step: c.Step, Scopes: c.Scopes})
	t.s.MessageBytes += size
	remote := *t.s.Steps[i].Remote
	remote.Asking, remote.Answer = machine.AwaitNothing, seq
	t.steps()[i].Remote = &remote
	return nil
}
