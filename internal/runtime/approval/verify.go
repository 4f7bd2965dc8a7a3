package approval

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// ErrExpired is the error for a call that was approved but not sent before its approval expired.
var ErrExpired = errors.New("the approval is over")

// MismatchCode is the error code of a call that differs from the approved call.
const MismatchCode = "APPROVAL_MISMATCH"

// Mismatch is the error for a call that must not be sent, because it differs from the approved call
// or was not approved.
type Mismatch struct{ Message string }

func (m *Mismatch) Error() string { return MismatchCode + ": " + m.Message }

// Verify checks that a call may be sent with this payload. It computes the digest of the call and
// compares it with the approved digest. A call that needs no approval passes. The error is a
// [*Mismatch] or [ErrExpired].
func Verify(s *machine.State, step *machine.ToolStep, payload []byte, now int64) error {
	a := step.Approval
	if a == nil {
		return nil
	}
	if a.Held || a.Verdict != machine.Approved && a.Verdict != machine.Edited {
		return &Mismatch{Message: fmt.Sprintf("step %d was not approved", step.Step)}
	}
	digest := machine.CallDigest(step.Tool, s.Digest, s.RunID, step.Step, validate.PayloadHash(payload))
	if digest != a.Digest || !strictjson.Valid(payload) {
		return &Mismatch{Message: fmt.Sprintf("step %d is sha256:%x, and sha256:%x was approved", step.Step, digest, a.Digest)}
	}
	return InTime(step, now)
}

// Refusal returns the input that records why [CheckAllowed] or [Verify] refused a call. If the approval
// has expired, the input makes the call wait for approval again. Otherwise the input answers the
// call with the error.
func Refusal(step *machine.ToolStep, err error) machine.Command {
	if errors.Is(err, ErrExpired) {
		return machine.DecideStep{Step: step.Step, Digest: step.Approval.Digest, Verdict: machine.Expired}
	}
	if denied, ok := errors.AsType[*NotAllowed](err); ok {
		return machine.ResolveStep{
			Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Final: true, Metered: true,
			Error: machine.Fault{Code: denied.Code, Message: denied.Message},
		}
	}
	fault := machine.Fault{Code: MismatchCode, Message: err.Error()}
	if m, ok := errors.AsType[*Mismatch](err); ok {
		fault.Message = m.Message
	}
	return machine.ResolveStep{Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: fault, Final: true}
}
