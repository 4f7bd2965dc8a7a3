package rules

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// MustWait says whether a call is held: every one of a tool that is to be approved, unless
// the host has evaluated its condition and says that it is free.
func MustWait(a *machine.Approval, h machine.Holding) bool {
	return a != nil && (a.If == "" || !h.Free)
}

// Timeout is how long a call is held.
func Timeout(a *machine.Approval) time.Duration {
	if a == nil || a.Timeout == 0 {
		return machine.DefaultApprovalTimeout
	}
	return a.Timeout
}

// ApprovalExpired reports whether a call that nobody is asked about was approved until a time that is over.
func ApprovalExpired(p *machine.ToolStep, now int64) bool {
	a := p.Approval
	return p.AwaitingAnswer() && a != nil && !a.Held && a.Expires != 0 && a.Expires <= now
}
