package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The tool policy of runs that agents execute (semantics §10). A run sends its lists of tools with its
// delegations, together with the lists that the run received at its own start. So no run can call a
// tool that is forbidden for one of its ancestors.

// denied returns the denial of a tool by the policy that the run received at its start. It returns nil
// if the tool is allowed. The reconcile tool and the compensate tool of the tool must also be allowed.
func (t *txn) denied(name string) *machine.Denial {
	if t.s.Policy == nil {
		return nil
	}
	if t.s.Policy.Blocks(name) {
		return &machine.Denial{Code: machine.ToolBlocked, Message: fmt.Sprintf("the blocklist of the run that delegated names tool %q", name)}
	}
	tool := t.g.Tools[name]
	for _, needed := range [...]string{name, tool.Reconcile, tool.Compensate} {
		if needed != "" && !t.s.Policy.Admits(needed) {
			return &machine.Denial{Code: machine.ToolNotAllowed, Message: fmt.Sprintf("the allowlist of the run that delegated does not admit tool %q", needed)}
		}
	}
	return nil
}

// passOn returns the policy for an agent's run. It allows the tools that both the operator and the
// run's own policy allow, except the tools that the policy or the prompt blocks. nil means that there
// is no restriction.
func (t *txn) passOn(operator *machine.ToolPolicy) *machine.ToolPolicy {
	out := &machine.ToolPolicy{}
	if operator != nil {
		out.Named, out.Limited, out.Allow = operator.Named, operator.Limited, operator.Allow
	}
	block := slices.Collect(maps.Keys(t.g.Prompts[t.node().Prompt].Blocklist))
	if own := t.s.Policy; own != nil {
		block = append(block, own.Block...)
		if own.Limited {
			var both []string
			for _, name := range own.Allow {
				if out.Admits(name) {
					both = append(both, name)
				}
			}
			out.Limited, out.Allow = true, both
		}
	}
	slices.Sort(block)
	out.Block = slices.Compact(block)
	if !out.Binds() {
		return nil
	}
	return out
}
