package machine

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// CmdDecideStep is the number of [DecideStep].
const CmdDecideStep CommandKind = 50

// RecStepDecided is the number of [StepDecided].
const RecStepDecided RecordKind = 34

// DefaultApprovalTimeout is how long a call that needs approval waits for a decision if the pack does not set a
// timeout.
const DefaultApprovalTimeout = 24 * time.Hour

// Verdict is the decision about a held call. A held call is a call that waits for approval.
type Verdict uint8

const (
	// Approved means that the call is made unchanged.
	Approved Verdict = iota + 1
	// Refused means that the call is answered with the error DENIED.
	Refused
	// Edited means that the call is made with another payload.
	Edited
	// TimedOut means that no decision was made in time.
	TimedOut
	// Expired means that the call was approved but not made before the approval expired. The call then waits for a new
	// decision.
	Expired
)

var verdicts = [...]string{"undecided", "approved", "denied", "edited", "timed out", "lapsed"}

// String returns the verdict as an English word.
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return "unknown"
}

// Approval configures how the calls of a tool are approved (x_pawl.tools.NAME.approve and approval).
type Approval struct {
	// If is the condition (CEL) under which a call must wait for approval. The engine evaluates it. If it is "", every
	// call must wait.
	If string `json:",omitempty"`
	// Timeout is how long a call waits for a decision.
	Timeout time.Duration
	// Escalate selects what happens if no decision is made in time. If it is true, the run ends. If it
	// is false, the call is denied.
	Escalate bool `json:",omitempty"`
	// NotStarter means that the principal that started the run may not decide about the calls of the tool.
	NotStarter bool `json:",omitempty"`
}

// Holding is the result of evaluating the approval condition of one tool call.
type Holding struct {
	// Free reports whether the condition was evaluated and allows the call without approval. If it is false, the call must
	// wait for approval.
	Free bool
	// Why is the reason why the condition could not be evaluated. It is "" if the condition was
	// evaluated.
	Why string
}

// StepApproval says whether a call waits for approval, and what was decided about it.
type StepApproval struct {
	// Held reports whether the call waits for a decision. Since is the time at which this wait began, in Unix
	// nanoseconds.
	Held  bool
	Since int64
	// Digest identifies the exact call, see [CallDigest].
	Digest [32]byte
	// Verdict is the last decision, or 0 if no decision was made. By is the principal that decided. At
	// is the time of the decision. Seq is its record.
	Verdict Verdict
	By      string
	At      int64
	Seq     uint64
	// Expires is the time by which the approved call must be made, in Unix nanoseconds. 0 means that
	// there is no limit.
	Expires int64
	// PayloadSeq is the record of the decision that replaced the payload. It is 0 if the payload was
	// not replaced.
	PayloadSeq uint64
}

// HeldForApproval reports whether a pending step is held for a decision.
func (s *ToolStep) HeldForApproval() bool {
	return s.Status == StepStatusPending && s.Approval != nil && s.Approval.Held
}

// Dispatchable reports whether the step may be sent: it needs an answer and is not held for a decision.
func (s *ToolStep) Dispatchable() bool { return s.AwaitingAnswer() && !s.HeldForApproval() }

// PayloadSeq returns the record that contains the current payload. This is the record of the request,
// or of the decision that replaced the payload.
func (s *ToolStep) PayloadSeq() uint64 {
	if s.Approval != nil && s.Approval.PayloadSeq != 0 {
		return s.Approval.PayloadSeq
	}
	return s.RequestSeq
}

// ApprovalHold is part of the record of a requested call. If it is set, the call waits for approval.
type ApprovalHold struct {
	// Why is the reason why the pack's condition could not be evaluated. It is "" if the pack requires the approval.
	Why string
}

type (
	// DecideStep is a decision about a held call.
	DecideStep struct {
		Step uint32
		// Digest is the digest of the call that the decision is about.
		Digest  [32]byte
		Verdict Verdict
		// Payload is the payload that replaces the payload of the call (Edited), as compact JSON.
		// PayloadHash is the SHA-256 of the canonical form of Payload. The engine sets it.
		Payload     []byte
		PayloadHash [32]byte
		Reason      string
		// Expires is the time by which the approved call must be made, in Unix nanoseconds. 0 means that there is no
		// limit.
		Expires int64
		// Starters are the principals that started the run and its ancestors. The engine sets them if the
		// pack does not allow them to decide.
		Starters []string
	}
	// StepDecided records the decision about a call that waited for approval, or that no decision was made in time.
	StepDecided struct {
		Step    uint32
		Tool    string
		Verdict Verdict
		// Digest identifies the call that the decision is about. If the call was edited, it identifies the call with the new payload.
		Digest [32]byte
		// Payload is the payload that replaces the payload of the request (Edited).
		Payload []byte
		Reason  string
		Expires int64
		// Deadline is the new deadline of the step, in Unix nanoseconds. It is 0 if the decision
		// answered the step.
		Deadline int64
	}
)

// DecisionSearch selects journal entries with decisions about held calls.
type DecisionSearch struct {
	// Run selects the entries of one run. "" selects those of all runs in the order of commits, without imported ones.
	Run string
	// Before is the Next of the previous page, which contains the newer entries. 0 means that the page begins with the
	// newest entry.
	Before uint64
	// From excludes entries before this time, in Unix nanoseconds.
	From int64
	// Limit is the largest number of entries of a page. It must be at least 1.
	Limit int
}

// DecisionPage is the result of a [DecisionSearch], the newest entry first.
type DecisionPage struct {
	Entries []Entry
	// Next is the position after which the next page begins. 0 means that there is none.
	Next uint64
	// Removed is how many of the examined entries belong to deleted runs. The page does not contain these entries.
	Removed uint64
}

func (DecideStep) command() CommandKind { return CmdDecideStep }
func (*StepDecided) record() RecordKind { return RecStepDecided }

// digestTag is the first part of the hashed data of every call digest.
const digestTag = "pawl.approval.v1\x00"

// CallDigest returns a digest that identifies one exact call. It is the SHA-256 over a tag; the tool,
// the pack digest and the run, each with its length; the step; and the SHA-256 of the canonical payload
// (RFC 8785).
func CallDigest(tool, pack, run string, step uint32, payload [32]byte) [32]byte {
	b := append(make([]byte, 0, 256), digestTag...)
	for _, text := range []string{tool, pack, run} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = binary.BigEndian.AppendUint32(b, step)
	return sha256.Sum256(append(b, payload[:]...))
}
