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

// DefaultApprovalTimeout is how long a held call waits where the pack does not say.
const DefaultApprovalTimeout = 24 * time.Hour

// Verdict is what became of a held call.
type Verdict uint8

const (
	// Approved: the call goes out as it is.
	Approved Verdict = iota + 1
	// Refused: it is answered with the error DENIED.
	Refused
	// Edited: it goes out with another payload.
	Edited
	// TimedOut: nobody decided in time.
	TimedOut
	// Expired: it was approved, and did not go out while the approval held; it is held again.
	Expired
)

var verdicts = [...]string{"undecided", "approved", "denied", "edited", "timed out", "lapsed"}

// String is the verdict as people read it.
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return "unknown"
}

// Approval is how the calls of a tool are approved (x_pawl.tools.NAME.approve, approval).
type Approval struct {
	// If is the condition (CEL) under which a call is held, which the host evaluates; "" =
	// every call is.
	If string `json:",omitempty"`
	// Timeout is how long a call is held.
	Timeout time.Duration
	// Escalate ends the run when the time is over; else the call is denied.
	Escalate bool `json:",omitempty"`
	// NotStarter: whoever started the run does not decide.
	NotStarter bool `json:",omitempty"`
}

// Holding is the host's word on a condition.
type Holding struct {
	// Free: the condition was evaluated, and does not hold the call. Without that word it
	// is held.
	Free bool
	// Why the condition could not be evaluated; "" = it was.
	Why string
}

// StepApproval is what is known of the approval of a call.
type StepApproval struct {
	// Held: it waits for a decision, since Since (Unix nanoseconds).
	Held  bool
	Since int64
	// Digest names the very call, see [CallDigest].
	Digest [32]byte
	// Verdict is the last decision; 0 = there was none. By and At say who made it and when,
	// Seq the record.
	Verdict Verdict
	By      string
	At      int64
	Seq     uint64
	// Expires: what was approved goes out by then, Unix nanoseconds; 0 = whenever.
	Expires int64
	// PayloadSeq is the record of the decision that replaced the payload; 0 = none did.
	PayloadSeq uint64
}

// HeldForApproval reports whether a pending step is held for a decision.
func (s *ToolStep) HeldForApproval() bool {
	return s.Status == StepStatusPending && s.Approval != nil && s.Approval.Held
}

// Dispatchable reports whether the step may be with somebody: it is to be answered, and nobody has to
// decide about it first.
func (s *ToolStep) Dispatchable() bool { return s.AwaitingAnswer() && !s.HeldForApproval() }

// PayloadSeq is the record that has the payload that counts.
func (s *ToolStep) PayloadSeq() uint64 {
	if s.Approval != nil && s.Approval.PayloadSeq != 0 {
		return s.Approval.PayloadSeq
	}
	return s.RequestSeq
}

// ApprovalHold says in the record of a call that it is held.
type ApprovalHold struct {
	// Why the pack's condition could not be evaluated; "" = the pack holds the call.
	Why string
}

type (
	// DecideStep is a decision about a held call.
	DecideStep struct {
		Step uint32
		// Digest of the call that was looked at.
		Digest  [32]byte
		Verdict Verdict
		// Payload is what goes out instead (Edited), compact JSON; PayloadHash is that of
		// its canonical form, stamped by the host.
		Payload     []byte
		PayloadHash [32]byte
		Reason      string
		// Expires: it goes out by then, Unix nanoseconds; 0 = whenever.
		Expires int64
		// Starters are who started the run, and those that led to it, stamped by the host
		// where the pack asks for others.
		Starters []string
	}
	// StepDecided is a decision, or that there was none in time.
	StepDecided struct {
		Step    uint32
		Tool    string
		Verdict Verdict
		// Digest of what was decided; of an edited call of what goes out.
		Digest [32]byte
		// Payload goes out instead of the request's (Edited).
		Payload []byte
		Reason  string
		Expires int64
		// Deadline of the step from now on, Unix nanoseconds; 0 = it is answered.
		Deadline int64
	}
)

func (DecideStep) command() CommandKind { return CmdDecideStep }
func (*StepDecided) record() RecordKind { return RecStepDecided }

// digestTag begins what digests of calls are made of.
const digestTag = "pawl.approval.v1\x00"

// CallDigest names one very call: the SHA-256 of a tag, then tool, pack digest and run with
// their lengths, the step, and the SHA-256 of the canonical payload (RFC 8785).
func CallDigest(tool, pack, run string, step uint32, payload [32]byte) [32]byte {
	b := append(make([]byte, 0, 256), digestTag...)
	for _, text := range []string{tool, pack, run} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = binary.BigEndian.AppendUint32(b, step)
	return sha256.Sum256(append(b, payload[:]...))
}
