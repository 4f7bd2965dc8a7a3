package approval

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// NotAllowed is the error for a call of a tool that the operator's allowlist no longer contains.
type NotAllowed struct{ machine.Denial }

func (n *NotAllowed) Error() string { return n.Code + ": " + n.Message }

// Denied returns the refusal of a tool by the operator's allowlist. It returns nil if the list
// admits the tool, its reconcile tool and its compensate tool. It is checked when a call is
// requested, and again when the call is sent.
func Denied(allow policy.Allowlist, g *machine.Graph, tool string) *machine.Denial {
	t := g.Tools[tool]
	for _, name := range [...]string{tool, t.Reconcile, t.Compensate} {
		if name != "" && !allow.Admits(name) {
			message := fmt.Sprintf("the operator's allowlist does not admit tool %q (serve --allow-tool %[1]s)", name)
			return &machine.Denial{Code: machine.ToolNotAllowed, Message: message}
		}
	}
	return nil
}

// Allowed checks the allowlist again before a call is sent, because the list may change while a
// call waits. The error is a [*NotAllowed]. Steps that the sidecar makes about another call
// (reconciliation, compensation) were admitted with that call and always pass.
func Allowed(allow policy.Allowlist, g *machine.Graph, step *machine.ToolStep) error {
	if step.About != nil {
		return nil
	}
	if denial := Denied(allow, g, step.Tool); denial != nil {
		return &NotAllowed{*denial}
	}
	return nil
}
