package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// noteDelegation records a change of a delegation. It ignores a change that is for a finished step or
// an earlier attempt.
func (t *txn) noteDelegation(c *machine.NoteDelegation) (machine.Disposition, error) {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal, nil
	}
	i := FindStep(t.s.Steps, c.Step)
	if i < 0 || t.s.Steps[i].Status != machine.StepStatusPending || t.s.Steps[i].Attempt != c.Attempt || t.s.Steps[i].HeldForApproval() {
		return machine.IgnoredStale, nil
	}
	step := &t.s.Steps[i]
	if c.Remote.Announces() && (t.s.Paused || ApprovalExpired(step, t.in.At)) {
		return machine.IgnoredStale, nil // no work is sent now
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

// answerDelegation sends the parts of an input to the agent that has asked for an answer.
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
	seq := t.record(&machine.InputReceived{Parts: c.Parts, MessageID: t.in.ID, Envelope: c.Envelope, Step: c.Step, Scopes: c.Scopes})
	t.s.MessageBytes += size
	remote := *t.s.Steps[i].Remote
	remote.Asking, remote.Answer = machine.AwaitNothing, seq
	t.steps()[i].Remote = &remote
	return nil
}
