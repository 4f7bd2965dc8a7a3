package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file handles calls that need the approval of a person (semantics §9). A held call has a number
// and a record, but it gets an outbox row only after a decision about exactly this call.

// DeniedCode is the error code of a call that was denied, or for which no decision was made in time.
const DeniedCode = "DENIED"

// await makes a new step wait for a decision if its tool requires one. asked is the record of the step.
// h is the result of the approval condition.
func (t *txn) await(step *machine.ToolStep, asked *machine.StepRequested, h machine.Holding) {
	tool := ToolOf(t.g, step.Tool)
	if !MustWait(tool.Approval, h) {
		return
	}
	step.Deadline = AddCapped(t.in.At, int64(Timeout(tool.Approval)))
	step.Approval = &machine.StepApproval{
		Held: true, Since: t.in.At,
		Digest: machine.CallDigest(step.Tool, t.s.Digest, t.s.RunID, step.Step, step.PayloadHash),
	}
	asked.Deadline, asked.Hold = step.Deadline, &machine.ApprovalHold{Why: h.Why}
}

// decide applies a decision about a held call.
func (t *txn) decide(c *machine.DecideStep) (machine.Disposition, error) {
	i := FindStep(t.s.Steps, c.Step)
	if c.Verdict == machine.Expired {
		return t.expireApproval(i, c), nil
	}
	if err := t.checkDecided(i, c); err != nil {
		return 0, err
	}
	switch c.Verdict {
	case machine.Refused:
		reason := c.Reason
		if reason == "" {
			reason = "the call was denied"
		}
		t.turnDown(i, machine.Refused, c.Reason, reason)
	default:
		t.release(i, c)
	}
	return machine.Accepted, nil
}

// checkDecided makes the checks of a decision in a fixed order.
func (t *txn) checkDecided(i int, c *machine.DecideStep) error {
	var step *machine.ToolStep
	if i >= 0 {
		step = &t.s.Steps[i]
	}
	if step != nil && step.Approval != nil && !step.Approval.Held && step.Approval.Verdict != 0 {
		return Already(step)
	}
	if err := t.checkOpen(); err != nil {
		return err
	}
	if step == nil || !step.HeldForApproval() {
		return Nothing(c.Step)
	}
	tool := ToolOf(t.g, step.Tool)
	return First(Starter(tool.Approval, c, t.in.Principal), Digest(step, c), CheckDecision(c, t.in.At))
}

// decided begins the record of a decision and updates the approval data of the step.
func (t *txn) decided(i int, c *machine.DecideStep) (*machine.StepApproval, *machine.StepDecided) {
	step := &t.steps()[i]
	approval := *step.Approval
	approval.Held, approval.Verdict, approval.Expires = false, c.Verdict, c.Expires
	approval.By, approval.At, approval.Seq = t.in.Principal, t.in.At, t.s.Seq+1
	if c.Verdict == machine.Edited {
		approval.Digest = machine.CallDigest(step.Tool, t.s.Digest, t.s.RunID, step.Step, c.PayloadHash)
		approval.PayloadSeq = approval.Seq
	}
	step.Approval = &approval
	return &approval, &machine.StepDecided{
		Step: step.Step, Tool: step.Tool, Verdict: c.Verdict, Digest: approval.Digest, Payload: c.Payload, Reason: c.Reason, Expires: c.Expires,
	}
}

// release allows the call to be sent. Its timeout starts now.
func (t *txn) release(i int, c *machine.DecideStep) {
	_, record := t.decided(i, c)
	step := &t.steps()[i]
	step.Deadline = AddCapped(t.in.At, int64(ToolOf(t.g, step.Tool).Timeout))
	record.Deadline = step.Deadline
	t.record(record)
}

// turnDown answers a held call with an error. It does not apply the tool's on_error, because a person
// has decided and the turn must receive that answer. No attempt follows.
func (t *txn) turnDown(i int, v machine.Verdict, reason, words string) {
	_, record := t.decided(i, &machine.DecideStep{Verdict: v, Reason: reason})
	t.record(record)
	step := &t.steps()[i]
	fault := machine.Fault{Code: DeniedCode, Message: words}
	seq := t.record(&machine.StepResolved{
		Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: fault, Kind: t.recordedKind(step.Kind()),
	})
	t.settleStep(i, machine.StepStatusError, seq, answerHash(false, nil, fault))
}

// undecided answers a held call for which no decision was made in time.
func (t *txn) undecided(i int) machine.Disposition {
	step := &t.s.Steps[i]
	tool := ToolOf(t.g, step.Tool)
	t.turnDown(i, machine.TimedOut, "", fmt.Sprintf("nobody approved the call within %s", Timeout(tool.Approval)))
	if tool.Approval == nil || !tool.Approval.Escalate || t.s.Status.Terminal() {
		return machine.Accepted
	}
	t.end(ending{status: machine.Escalated, reason: "approval_timeout:" + step.Tool})
	return machine.DispEscalated
}

// expireApproval holds an approved call again if the call was not sent in time. Only the engine
// requests this, because only the engine knows whether the call was sent.
func (t *txn) expireApproval(i int, c *machine.DecideStep) machine.Disposition {
	switch {
	case t.s.Status.Terminal():
		return machine.IgnoredTerminal
	case i < 0 || !ApprovalExpired(&t.s.Steps[i], t.in.At) || t.s.Steps[i].Approval.Digest != c.Digest:
		return machine.IgnoredStale
	}
	approval, record := t.decided(i, &machine.DecideStep{Verdict: machine.Expired})
	step := &t.steps()[i]
	tool := ToolOf(t.g, step.Tool)
	if tool.Approval != nil {
		step.Deadline = AddCapped(t.in.At, int64(Timeout(tool.Approval)))
	}
	approval.Held, approval.Since = true, t.in.At
	record.Deadline = step.Deadline
	t.record(record)
	return machine.Accepted
}
