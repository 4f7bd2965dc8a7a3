package rules

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file handles calls that need the approval of a person (semantics §9). A held call is a step that waits for
// approval. It is sent only after a decision about exactly this call.

// DeniedCode is the error code of a call that was denied, or for which no decision was made in time.
const DeniedCode = "DENIED"

// awaitApproval makes a new step wait for approval if its tool requires that. asked is the record of the step. h is the result
// of the tool's approval condition.
func (t *txn) awaitApproval(step *machine.ToolStep, asked *machine.StepRequested, h machine.Holding) {
	tool := ToolOf(t.g, step.Tool)
	if !MustWait(tool.Approval, h) {
		return
	}
	step.Deadline = AddCapped(t.input.At, int64(Timeout(tool.Approval)))
	step.Approval = &machine.StepApproval{
		Held: true, Since: t.input.At,
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

// checkDecided returns an error if a decision about the step is not allowed. The order of its checks is fixed, because
// the first failed check is the answer to the caller.
func (t *txn) checkDecided(i int, c *machine.DecideStep) error {
	var step *machine.ToolStep
	if i >= 0 {
		step = &t.s.Steps[i]
	}
	if step != nil && step.Approval != nil && !step.Approval.Held && step.Approval.Verdict != 0 {
		return AlreadyDecidedError(step)
	}
	if err := t.checkOpen(); err != nil {
		return err
	}
	if step == nil || !step.HeldForApproval() {
		return NotAwaitingError(c.Step)
	}
	tool := ToolOf(t.g, step.Tool)
	return First(Starter(tool.Approval, c, t.input.Principal), Digest(step, c), CheckDecision(c, t.input.At))
}

// storeDecision stores a decision in the approval data of the step. It returns that data and the record of the decision,
// which the caller may still change.
func (t *txn) storeDecision(i int, c *machine.DecideStep) (*machine.StepApproval, *machine.StepDecided) {
	step := &t.steps()[i]
	approval := *step.Approval
	approval.Held, approval.Verdict, approval.Expires = false, c.Verdict, c.Expires
	approval.By, approval.At, approval.Seq = t.input.Principal, t.input.At, t.s.Seq+1
	if c.Verdict == machine.Edited {
		approval.Digest = machine.CallDigest(step.Tool, t.s.Digest, t.s.RunID, step.Step, c.PayloadHash)
		approval.PayloadSeq = approval.Seq
	}
	step.Approval = &approval
	return &approval, &machine.StepDecided{
		Step: step.Step, Tool: step.Tool, Verdict: c.Verdict, Digest: approval.Digest, Payload: c.Payload, Reason: c.Reason, Expires: c.Expires,
	}
}

// release allows an approved call to be sent. The timeout of the call starts now.
func (t *txn) release(i int, c *machine.DecideStep) {
	_, record := t.storeDecision(i, c)
	step := &t.steps()[i]
	step.Deadline = AddCapped(t.input.At, int64(ToolOf(t.g, step.Tool).Timeout))
	record.Deadline = step.Deadline
	t.record(record)
}

// turnDown answers a held call (a call that waits for approval) with an error. It ignores the tool's on_error, because
// the turn must receive the decision of the person. No attempt follows.
func (t *txn) turnDown(i int, v machine.Verdict, reason, words string) {
	_, record := t.storeDecision(i, &machine.DecideStep{Verdict: v, Reason: reason})
	t.record(record)
	step := &t.steps()[i]
	fault := machine.Fault{Code: DeniedCode, Message: words}
	seq := t.record(&machine.StepResolved{
		Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: fault, Kind: t.recordedKind(step.Kind()),
	})
	t.settleStep(i, machine.StepStatusError, seq, answerHash(false, nil, fault))
}

// answerUndecided answers a held call (a call that waits for approval) for which no decision was made in time. If the pack
// requires it, the run ends as ESCALATED.
func (t *txn) answerUndecided(i int) machine.Disposition {
	step := &t.s.Steps[i]
	tool := ToolOf(t.g, step.Tool)
	t.turnDown(i, machine.TimedOut, "", fmt.Sprintf("nobody approved the call within %s", Timeout(tool.Approval)))
	if tool.Approval == nil || !tool.Approval.Escalate || t.s.Status.Terminal() {
		return machine.Accepted
	}
	t.end(ending{status: machine.Escalated, reason: "approval_timeout:" + step.Tool})
	return machine.DispEscalated
}

// expireApproval makes an approved call wait for approval again, because the call was not sent in time. Only the engine
// requests this, because only the engine knows whether the call was sent.
func (t *txn) expireApproval(i int, c *machine.DecideStep) machine.Disposition {
	switch {
	case t.s.Status.Terminal():
		return machine.IgnoredTerminal
	case i < 0 || !ApprovalExpired(&t.s.Steps[i], t.input.At) || t.s.Steps[i].Approval.Digest != c.Digest:
		return machine.IgnoredStale
	}
	approval, record := t.storeDecision(i, &machine.DecideStep{Verdict: machine.Expired})
	step := &t.steps()[i]
	tool := ToolOf(t.g, step.Tool)
	if tool.Approval != nil {
		step.Deadline = AddCapped(t.input.At, int64(Timeout(tool.Approval)))
	}
	approval.Held, approval.Since = true, t.input.At
	record.Deadline = step.Deadline
	t.record(record)
	return machine.Accepted
}

// NotAwaitingError returns the error for a decision about a step that does not wait for a decision.
func NotAwaitingError(step uint32) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "NOTHING_TO_DECIDE", Field: "step",
		Message: fmt.Sprintf("step %d does not wait for a decision: it needs no approval, or its visit was left", step),
	}
}

// AlreadyDecidedError returns the error for a decision about a step that is already decided. The message names that
// decision.
func AlreadyDecidedError(step *machine.ToolStep) error {
	a := step.Approval
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "ALREADY_DECIDED", Field: "step", Seq: a.Seq,
		Message: fmt.Sprintf("step %d was %s by %q at %s", step.Step, a.Verdict, a.By, time.Unix(0, a.At).UTC().Format(time.RFC3339)),
	}
}

// Starter returns an error if the principal `by` started the run and the pack does not allow the starter to decide.
func Starter(a *machine.Approval, c *machine.DecideStep, by string) error {
	if a == nil || !a.NotStarter || !slices.Contains(c.Starters, by) {
		return nil
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "APPROVER_IS_STARTER", Field: "step",
		Message: fmt.Sprintf("%q started the run, and the pack requires another principal to decide", by),
	}
}

// Digest returns an error if the digest in a decision is not the digest of the call that waits for approval. The error
// does not contain the correct digest: a caller that may not see the call could otherwise copy it and decide.
func Digest(step *machine.ToolStep, c *machine.DecideStep) error {
	if step.Approval.Digest == c.Digest {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "DIGEST_MISMATCH", Field: "digest",
		Message: "the call that waits is another one: look at it again", Seq: step.PayloadSeq(),
	}
}

// CheckDecision returns an error if the fields of a decision are incomplete or contradict each other.
func CheckDecision(c *machine.DecideStep, now int64) error {
	switch {
	case c.Verdict != machine.Approved && c.Verdict != machine.Refused && c.Verdict != machine.Edited:
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "DECISION_REQUIRED", Field: "decision",
			Message: "decide what becomes of the call", Allowed: []string{"approve", "deny", "edit"},
		}
	case (c.Verdict == machine.Edited) != (len(c.Payload) > 0):
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "EDIT_REFUSED", Field: "payload_json",
			Message: "an edit has a payload, and nothing else has",
		}
	case c.Expires != 0 && (c.Expires <= now || c.Verdict == machine.Refused):
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "EXPIRES_IN_PAST", Field: "expires",
			Message: "what is approved expires in the future, and a denial never does",
		}
	}
	return nil
}

// NotGivenOut returns the error for an answer to an attempt that still waits for approval, so that it was never sent.
func NotGivenOut(step *machine.ToolStep) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "STEP_HELD", Field: "step",
		Message: fmt.Sprintf("attempt %d of step %d waits for a decision (DecideStep), and was not given out: do not make the call", step.Attempt, step.Step),
	}
}

// MustWait reports whether a call must wait for approval. It need not wait if its tool has no approval rule, or if the
// condition of the rule was evaluated and allows the call.
func MustWait(a *machine.Approval, h machine.Holding) bool {
	return a != nil && (a.If == "" || !h.Free)
}

// Timeout returns how long a call of the tool waits for a decision.
func Timeout(a *machine.Approval) time.Duration {
	if a == nil || a.Timeout == 0 {
		return machine.DefaultApprovalTimeout
	}
	return a.Timeout
}

// ApprovalExpired reports whether an approved call was not answered before its approval expired. A call whose outcome
// is being inquired about does not count.
func ApprovalExpired(p *machine.ToolStep, now int64) bool {
	a := p.Approval
	return p.AwaitingAnswer() && a != nil && !a.Held && a.Expires != 0 && a.Expires <= now
}

// The tool policy of a run comes from the run that delegated to it (semantics §10). A run sends its own policy,
// together with the policy that it received, with each delegation. So no run can call a tool that is forbidden for one
// of its ancestors.

// policyDenial returns the denial of a tool by the policy that the run received at its start. It returns nil if the tool is
// allowed. The tools that reconcile or compensate the tool's calls must also be allowed.
func (t *txn) policyDenial(name string) *machine.Denial {
	if t.s.Policy == nil {
		return nil
	}
	if t.s.Policy.Blocks(name) {
		return &machine.Denial{Code: machine.ToolBlocked, Message: fmt.Sprintf("the blocklist of the run that delegated names tool %q", name)}
	}
	tool := t.g.Tools[name]
	for _, needed := range [...]string{name, tool.Reconcile, tool.Compensate} {
		if needed != "" && !t.s.Policy.Admits(needed) {
			return &machine.Denial{Code: machine.ToolNotAllowed, Message: fmt.Sprintf("the allowlist of the run that delegated does not admit tool %q", needed)}
		}
	}
	return nil
}

// passOn returns the policy that is sent with a delegation. It allows the tools that both the operator and the run's
// own policy allow, except the tools that the own policy or the prompt blocks. nil means that there is no restriction.
func (t *txn) passOn(operator *machine.ToolPolicy) *machine.ToolPolicy {
	out := &machine.ToolPolicy{}
	if operator != nil {
		out.Named, out.Limited, out.Allow = operator.Named, operator.Limited, operator.Allow
	}
	block := slices.Collect(maps.Keys(t.g.Prompts[t.node().Prompt].Blocklist))
	if own := t.s.Policy; own != nil {
		block = append(block, own.Block...)
		if own.Limited {
			var both []string
			for _, name := range own.Allow {
				if out.Admits(name) {
					both = append(both, name)
				}
			}
			out.Limited, out.Allow = true, both
		}
	}
	slices.Sort(block)
	out.Block = slices.Compact(block)
	if !out.Binds() {
		return nil
	}
	return out
}
