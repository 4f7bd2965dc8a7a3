package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Nothing returns the error for a decision about a step that does not wait for a decision.
func Nothing(step uint32) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "NOTHING_TO_DECIDE", Field: "step",
		Message: fmt.Sprintf("step %d does not wait for a decision: nobody has to approve it, or its visit was left", step),
	}
}

// Already returns the error for a decision about a step that is already decided. The error contains the first decision.
func Already(step *machine.ToolStep) error {
	a := step.Approval
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "ALREADY_DECIDED", Field: "step", Seq: a.Seq,
		Message: fmt.Sprintf("step %d was %s by %q at %s", step.Step, a.Verdict, a.By, time.Unix(0, a.At).UTC().Format(time.RFC3339)),
	}
}

// Starter returns an error if the deciding principal started the run and the pack does not allow this
// principal to decide.
func Starter(a *machine.Approval, c *machine.DecideStep, by string) error {
	if a == nil || !a.NotStarter || !slices.Contains(c.Starters, by) {
		return nil
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "APPROVER_IS_STARTER", Field: "step",
		Message: fmt.Sprintf("%q started the run, and the pack asks for somebody else to decide", by),
	}
}

// Digest returns an error if the digest in a decision is not the digest of the held call. The error
// does not contain the correct digest, because a caller that may not see the call must not decide about
// it.
func Digest(step *machine.ToolStep, c *machine.DecideStep) error {
	if step.Approval.Digest == c.Digest {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "DIGEST_MISMATCH", Field: "digest",
		Message: "the call that waits is another one: look at it again", Seq: step.PayloadSeq(),
	}
}

// CheckDecision returns an error if a decision is incomplete or contradictory.
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

// NotGivenOut returns the error for an answer to an attempt that was not sent yet.
func NotGivenOut(step *machine.ToolStep) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "STEP_HELD", Field: "step",
		Message: fmt.Sprintf("attempt %d of step %d waits for a decision (DecideStep), and was not given out: do not make the call", step.Attempt, step.Step),
	}
}
