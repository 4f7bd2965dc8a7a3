package validate

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Policy is the operator's list of tools, as it goes with a call of an agent: Names tells those
// that it has, sorted, and whether it admits others, too. nil where it admits every tool and
// does not name the agent.
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

// Lent adds what a delegation lets a run consume and call; nothing without either.
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
