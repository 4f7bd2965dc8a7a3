package validate

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Policy returns the operator's list of tools in the form that is sent with a call of an agent.
// list.Names returns the listed tools in order, and whether other tools are admitted too. Policy
// returns nil if the list admits every tool and does not name the agent.
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

// Lent adds the amounts and tools that a delegation grants to a run. If there are none, it adds no
// bytes.
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
