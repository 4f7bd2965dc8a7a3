package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// noteDelegation keeps what is news of a delegation. News of a step that is
// over, or of an older attempt, is ignored.
func (t *txn) noteDelegation(c *machine.NoteDelegation) (machine.Disposition, error) {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal, nil
	}
	i := findStep(t.s.Steps, c.Step)
	if i < 0 || t.s.Steps[i].Status != machine.StepStatusPending || t.s.Steps[i].Attempt != c.Attempt || t.s.Steps[i].Awaits() {
		return machine.IgnoredStale, nil
	}
	step := &t.s.Steps[i]
	if err := first(checkDelegation(step, c), t.checkMessageBytes(partsBytes(c.Question))); err != nil {
		return 0, err
	}
	if step.Remote != nil && *step.Remote == c.Remote {
		return machine.IgnoredDuplicate, nil
	}
	t.record(&machine.StepDelegated{Step: c.Step, Tool: step.Tool, Attempt: c.Attempt, Remote: c.Remote, Question: c.Question})
	t.s.MessageBytes += partsBytes(c.Question)
	remote := c.Remote
	t.steps()[i].Remote = &remote
	return machine.Accepted, nil
}

// checkDelegation: an attempt has one task for its whole life, and an answer
// that waits to be sent is the caller's.
func checkDelegation(step *machine.ToolStep, c *machine.NoteDelegation) error {
	if !step.Delegation {
		return &machine.Refusal{
			Code: machine.CodeFailedPrecondition, Reason: "NO_DELEGATION", Field: "step",
			Message: fmt.Sprintf("step %d calls the tool %q, which is no agent", step.Step, step.Tool),
		}
	}
	known := step.Remote
	if known != nil && known.TaskID != "" && known.TaskID != c.Remote.TaskID {
		return &machine.Refusal{
			Code: machine.CodeFailedPrecondition, Reason: "DELEGATION_MOVED", Field: "task_id",
			Message: fmt.Sprintf("the delegation is task %q, not %q", known.TaskID, c.Remote.TaskID),
		}
	}
	if c.Remote.Answer != 0 && (known == nil || known.Answer != c.Remote.Answer) {
		return &machine.Refusal{
			Code: machine.CodeFailedPrecondition, Reason: "NO_SUCH_ANSWER", Field: "answer",
			Message: fmt.Sprintf("record %d is not the answer that waits to be sent", c.Remote.Answer),
		}
	}
	return nil
}

// answerDelegation gives parts to the agent that asks for them.
func (t *txn) answerDelegation(c *machine.SendInput) error {
	i := findStep(t.s.Steps, c.Step)
	if i < 0 || t.s.Steps[i].Status != machine.StepStatusPending || t.s.Steps[i].Remote == nil || t.s.Steps[i].Remote.Asking == machine.AwaitNothing {
		return &machine.Refusal{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ASKING", Field: "step",
			Message: fmt.Sprintf("step %d is no delegation that waits for an answer", c.Step),
		}
	}
	size := partsBytes(c.Parts) + envelopeBytes(c.Envelope)
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
