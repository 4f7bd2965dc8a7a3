package approval

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// NotAllowed is the error for a pending call whose tool the operator's allowlist no longer
// contains.
type NotAllowed struct{ machine.Denial }

func (n *NotAllowed) Error() string { return n.Code + ": " + n.Message }

// AllowlistDenial returns the refusal of a tool by the operator's allowlist. It returns nil if the list
// contains the tool and the tools that reconcile or compensate its calls. AllowlistDenial is called when a
// call is requested and again when the call is sent.
func AllowlistDenial(allow policy.Allowlist, g *machine.Graph, tool string) *machine.Denial {
	t := g.Tools[tool]
	for _, name := range [...]string{tool, t.Reconcile, t.Compensate} {
		if name != "" && !allow.Allows(name) {
			message := fmt.Sprintf("the operator's allowlist does not admit tool %q (serve --allow-tool %[1]s)", name)
			return &machine.Denial{Code: machine.ToolNotAllowed, Message: message}
		}
	}
	return nil
}

// CheckAllowed checks the operator's allowlist before a call is sent, because the list may have
// changed while the call waited. The error is a [*NotAllowed]. Steps that reconcile or compensate
// another call always pass, because they were checked together with that call.
func CheckAllowed(allow policy.Allowlist, g *machine.Graph, step *machine.ToolStep) error {
	if step.About != nil {
		return nil
	}
	if denial := AllowlistDenial(allow, g, step.Tool); denial != nil {
		return &NotAllowed{*denial}
	}
	return nil
}
