package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file has the part of the naive implementation for calls that a person approves.

// vheld is what a journal says of the approval of a call, if the call needs one.
type vheld struct {
	is, held bool
	since    int64
	digest   [32]byte
	verdict  machine.Verdict
	by       string
	at       int64
	seq      uint64
	expires  int64
	edited   bool
}

func heldFacts(a *machine.StepApproval) vheld {
	if a == nil {
		return vheld{}
	}
	return vheld{
		is: true, held: a.Held, since: a.Since, digest: a.Digest, verdict: a.Verdict, by: a.By, at: a.At, seq: a.Seq,
		expires: a.Expires, edited: a.PayloadSeq != 0,
	}
}

// digest is over the tag, then tool, pack and run with their lengths, the step, and the hash of the arguments.
func (n *naive) digest(tool string, step uint32, payload []byte) [32]byte {
	text := "pawl.approval.v1\x00"
	for _, part := range []string{tool, n.g.Digest, n.start().RunID} {
		text += string(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) + part
	}
	hash := sha256.Sum256(payload)
	return sha256.Sum256([]byte(text + string(binary.BigEndian.AppendUint32(nil, step)) + string(hash[:])))
}

// approvalHold returns the hold of a call that waits for a person: every call waits,
// unless the condition let it go.
func (n *naive) approvalHold(req machine.StepRequest) *machine.ApprovalHold {
	switch a := n.g.Tools[req.Tool].Approval; {
	case a == nil, a.If != "" && req.Holding.Free:
		return nil
	}
	return &machine.ApprovalHold{Why: req.Holding.Why}
}

func (n *naive) patience(tool string) int64 {
	if a := n.g.Tools[tool].Approval; a != nil && a.Timeout > 0 {
		return int64(a.Timeout)
	}
	return int64(24 * time.Hour)
}

func (v *view) isHeld() bool {
	return slices.ContainsFunc(v.steps, func(s vstep) bool { return s.awaitsApproval() })
}

// awaitsApproval reports whether the call is held until a person decides.
func (s *vstep) awaitsApproval() bool { return s.status == machine.StepStatusPending && s.held.held }

// readHeld reads from the record of a call whether the call is held.
func (n *naive) readHeld(step *vstep, b *machine.StepRequested, r machine.Record) {
	if b.Hold != nil {
		step.held = vheld{is: true, held: true, since: r.At, digest: n.digest(b.Tool, b.Step, b.Payload)}
	}
}

// readDecided reads the record of a decision, and reports whether it is one.
func (n *naive) readDecided(v *view, r machine.Record) bool {
	b, ok := r.Body.(*machine.StepDecided)
	if !ok {
		return false
	}
	step := v.step(b.Step)
	step.deadline, step.begins = b.Deadline, r.At
	h := vheld{is: true, digest: b.Digest, verdict: b.Verdict, by: r.Principal, at: r.At, seq: r.Seq, expires: b.Expires, since: step.held.since, edited: step.held.edited}
	switch b.Verdict {
	case machine.Edited:
		h.edited, step.payloadAt = true, r.Seq
	case machine.Expired:
		h.held, h.since = true, r.At
	}
	step.held = h
	return true
}

func (n *naive) decide(c machine.DecideStep, out *verdict) {
	v := n.view()
	step := v.step(c.Step)
	if c.Verdict == machine.Expired {
		n.holdAgain(c, step, out)
		return
	}
	if out.refusal = n.refuseDecision(c, step); out.refusal != nil {
		return
	}
	if c.Verdict == machine.Refused {
		words := c.Reason
		if words == "" {
			words = "the call was denied"
		}
		n.turnDown(step, machine.Refused, c.Reason, words)
		return
	}
	d := machine.StepDecided{
		Step: step.n, Tool: step.tool, Verdict: c.Verdict, Digest: step.held.digest, Payload: c.Payload, Reason: c.Reason,
		Expires: c.Expires, Deadline: n.now.At + n.timeout(step.tool),
	}
	if c.Verdict == machine.Edited {
		d.Digest = n.digest(step.tool, step.n, c.Payload)
	}
	n.add(&d)
}

// refuseDecision makes these checks, in this order: the call is decided already, the run has ended,
// no decision is due, the principal started the run and may not decide, the digest is of another
// call, the decision or its payload or its expiry is invalid.
func (n *naive) refuseDecision(c machine.DecideStep, step *vstep) *machine.Error {
	if step != nil && step.held.verdict != 0 && !step.held.held {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "ALREADY_DECIDED", Field: "step", Seq: step.held.seq}
	}
	if r := n.refuse(false, 0, 0, 0); r != nil {
		return r
	}
	if step == nil || !step.awaitsApproval() {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "NOTHING_TO_DECIDE", Field: "step"}
	}
	edit := c.Verdict == machine.Edited
	a := n.g.Tools[step.tool].Approval
	bad := &machine.Error{Code: machine.CodeInvalidArgument}
	switch {
	case a.NotStarter && slices.Contains(c.Starters, n.now.Principal):
		return &machine.Error{Code: machine.CodePermissionDenied, Reason: "APPROVER_IS_STARTER", Field: "step"}
	case c.Digest != step.held.digest:
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "DIGEST_MISMATCH", Field: "digest", Seq: step.lastAsked()}
	case !edit && c.Verdict != machine.Approved && c.Verdict != machine.Refused:
		bad.Reason, bad.Field, bad.Allowed = "DECISION_REQUIRED", "decision", []string{"approve", "deny", "edit"}
	case edit && len(c.Payload) == 0, !edit && len(c.Payload) > 0:
		bad.Reason, bad.Field = "EDIT_REFUSED", "payload_json"
	case c.Expires != 0 && c.Verdict == machine.Refused, c.Expires != 0 && c.Expires <= n.now.At:
		bad.Reason, bad.Field = "EXPIRES_IN_PAST", "expires"
	default:
		return nil
	}
	return bad
}

// lastAsked returns the record that has the payload of the call.
func (s *vstep) lastAsked() uint64 {
	if s.payloadAt != 0 {
		return s.payloadAt
	}
	return s.asked
}

// turnDown records a verdict against a call, and answers the call with the error DENIED. The
// on_error policy does not apply.
func (n *naive) turnDown(step *vstep, verdict machine.Verdict, reason, words string) {
	n.add(&machine.StepDecided{Step: step.n, Tool: step.tool, Verdict: verdict, Digest: step.held.digest, Reason: reason})
	n.add(&machine.StepResolved{Step: step.n, Tool: step.tool, Attempt: step.attempt, Error: machine.Fault{Code: "DENIED", Message: words}, Kind: n.kind(step.tool)})
	n.wake()
}

// approvalTimeout handles a held call whose time for a decision has passed.
func (n *naive) approvalTimeout(step *vstep, out *verdict) {
	n.turnDown(step, machine.TimedOut, "", fmt.Sprintf("nobody approved the call within %s", time.Duration(n.patience(step.tool))))
	if n.g.Tools[step.tool].Approval.Escalate {
		out.disposition = machine.DispEscalated
		n.end(machine.Escalated, "approval_timeout:"+step.tool, nil, nil)
	}
}

// holdAgain holds a call again if its approval has expired.
func (n *naive) holdAgain(c machine.DecideStep, step *vstep, out *verdict) {
	switch {
	case n.view().ended != nil:
		out.disposition = machine.IgnoredTerminal
	case step == nil || step.status != machine.StepStatusPending || step.inquiry != 0 || step.held.held || step.held.expires == 0 ||
		step.held.expires > n.now.At || step.held.digest != c.Digest:
		out.disposition = machine.IgnoredStale
	default:
		n.add(&machine.StepDecided{
			Step: step.n, Tool: step.tool, Verdict: machine.Expired, Digest: step.held.digest, Deadline: n.now.At + n.patience(step.tool),
		})
	}
}
