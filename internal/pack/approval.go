package pack

import (
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/expr"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Values of x_pawl.tools.NAME.approve that are not conditions.
const (
	approveNever  = "never"
	approveAlways = "always"
)

// conditions returns the language of approval conditions, with the names that conditions may use.
var conditions = sync.OnceValues(func() (*expr.Language, error) {
	return expr.NewLanguage([]string{"payload", "variables", "artifacts"}, nil)
})

// Condition compiles the condition of an approval. The condition may use payload (the arguments of the call), and variables and artifacts
// (of the run). The error contains the fault and its position.
func Condition(text string) (*expr.Program, error) {
	language, err := conditions()
	if err != nil {
		return nil, err
	}
	p, err := language.Compile(text, expr.Bool)
	if err != nil {
		return nil, fmt.Errorf("condition: %w", err)
	}
	return p, nil
}

// approval compiles the approval settings of a tool. It returns nil if calls of the tool need no approval.
func (l *ToolLimits) approval() *machine.Approval {
	if l.Approve == "" || l.Approve == approveNever {
		return nil
	}
	a := &machine.Approval{If: l.Approve, Timeout: machine.DefaultApprovalTimeout}
	if l.Approve == approveAlways {
		a.If = ""
	}
	if set := l.Approval; set != nil {
		a.Timeout = secondsOr(set.TimeoutSec, a.Timeout)
		a.Escalate, a.NotStarter = set.OnTimeout == "escalate", set.NotStarter
	}
	return a
}

// approval checks the settings of a tool.
func (c *checker) approval(at string, l ToolLimits) {
	a := l.approval()
	if a == nil {
		if l.Approval != nil {
			c.f.warn(ruleXPawl, at+"/approval", `Say when: "approve": "always", or a condition.`, "approval says how calls are approved, and approve holds none")
		}
		return
	}
	if a.If == "" {
		return
	}
	if _, err := Condition(a.If); err != nil {
		c.f.err(ruleXPawl, at+"/approve", `"never", "always", or an expression (CEL) over payload, variables and artifacts.`, "%s", err)
	}
}
