package validate

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Policy returns the operator's list of tools in the form that a call of an agent carries. Names
// returns the listed tools, sorted, and whether other tools are admitted too. Policy returns nil if
// the list admits every tool and does not name the agent.
func Policy(list interface{ Names() ([]string, bool) }, agent string) *machine.ToolPolicy {
	names, all := list.Names()
	named := slices.Contains(names, agent)
	switch {
	case all && !named:
		return nil
	case all:
		names = nil
	}
	return &machine.ToolPolicy{Limited: !all, Allow: names, Named: named}
}

// Lent adds the amounts and tools that a delegation grants to a run. It adds no bytes if there are
// none.
func (b Body) Lent(lease machine.Amount, p *machine.ToolPolicy) {
	if lease != (machine.Amount{}) {
		b.Number(uint64(lease.Tokens))
		b.Number(uint64(lease.CostMicro))
	}
	if lease.ToolCalls != 0 {
		b.Number(uint64(lease.ToolCalls))
	}
	if p == nil {
		return
	}
	b.Flag(p.Limited)
	for _, names := range [][]string{p.Allow, p.Block} {
		b.Number(uint64(len(names)))
		for _, name := range names {
			b.Text(name)
		}
	}
}
