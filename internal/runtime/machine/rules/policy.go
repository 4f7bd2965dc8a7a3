package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Rights of runs that agents begin (section 10). The lists of tools that hold for a run go
// along with its delegations, and what came with a run's own start goes on with them, so
// that no run below calls what one above it may not.

// denied is the refusal of a tool by the policy that the run began with; nil = it has none.
// As with the operator's list, a tool is admitted with those that answer for it.
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

// passOn is what an agent's run may call: what the operator admits here and the run's own
// policy does, but for what either that or the prompt blocks. nil = no list.
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
