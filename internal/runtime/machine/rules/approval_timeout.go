package rules

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// MustWait reports whether a call is held. A call is held if its tool needs approval, except if the tool's condition was evaluated and
// does not hold the call.
func MustWait(a *machine.Approval, h machine.Holding) bool {
	return a != nil && (a.If == "" || !h.Free)
}

// Timeout returns how long a call waits for a decision.
func Timeout(a *machine.Approval) time.Duration {
	if a == nil || a.Timeout == 0 {
		return machine.DefaultApprovalTimeout
	}
	return a.Timeout
}

// ApprovalExpired reports whether the approval of a call has ended while the call was approved but neither answered nor inquired about.
func ApprovalExpired(p *machine.ToolStep, now int64) bool {
	a := p.Approval
	return p.AwaitingAnswer() && a != nil && !a.Held && a.Expires != 0 && a.Expires <= now
}
