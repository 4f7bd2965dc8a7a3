package approval

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// ErrExpired: what was approved did not go out while the approval held.
var ErrExpired = errors.New("the approval is over")

// MismatchCode is the error of a call that is not the one that was approved.
const MismatchCode = "APPROVAL_MISMATCH"

// Mismatch is the error of what must not go out.
type Mismatch struct{ Message string }

func (m *Mismatch) Error() string { return MismatchCode + ": " + m.Message }

// Verify is made by whoever sends a call out, with the payload that it is about to send: it
// makes the digest anew and compares it with the approved one. A call that nobody has to
// approve passes. The error is a [*Mismatch] or [ErrExpired].
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

// Refusal is the input that a failed [Allowed] or [Verify] makes of a call that was not given
// out: it is held again, or answered with the error.
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
