package rules

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// MustWait reports whether a call is held: every call of a tool that needs approval, unless the host
// evaluated the tool's condition and the call is free.
func MustWait(a *machine.Approval, h machine.Holding) bool {
	return a != nil && (a.If == "" || !h.Free)
}

// Timeout returns how long a call is held.
func Timeout(a *machine.Approval) time.Duration {
	if a == nil || a.Timeout == 0 {
		return machine.DefaultApprovalTimeout
	}
	return a.Timeout
}

// ApprovalExpired reports whether a call was approved, still has no answer and no inquiry, and its approval
// has ended.
func ApprovalExpired(p *machine.ToolStep, now int64) bool {
	a := p.Approval
	return p.AwaitingAnswer() && a != nil && !a.Held && a.Expires != 0 && a.Expires <= now
}
