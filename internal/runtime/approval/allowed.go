package approval

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// NotAllowed is the error of a call whose tool the operator's allowlist admits no longer.
type NotAllowed struct{ machine.Denial }

func (n *NotAllowed) Error() string { return n.Code + ": " + n.Message }

// Denied is the refusal of a tool by the operator's allowlist; nil: the list admits the tool,
// and those that answer for it. It is asked when a call is asked for, and again when one leaves.
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

// Allowed is asked by what gives a call out: a call may wait for longer than the list stays as
// it is. The error is a [*NotAllowed]. The sidecar's own questions and compensations were
// admitted with the call that they are about, and pass.
func Allowed(allow policy.Allowlist, g *machine.Graph, step *machine.ToolStep) error {
	if step.About != nil {
		return nil
	}
	if denial := Denied(allow, g, step.Tool); denial != nil {
		return &NotAllowed{*denial}
	}
	return nil
}
