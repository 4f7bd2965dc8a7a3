package pack

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// costs checks what steps may cost, and where a run goes that cannot pay for one.
func (c *checker) costs(x *XPawl) {
	at := func(tokens ...string) string {
		return pointer(append([]string{"workflow", "engine", "x_pawl"}, tokens...)...)
	}
	for _, tool := range keys(x.Tools) {
		cost := x.Tools[tool].Cost
		if cost != nil && x.MaxCostUSD != nil && *cost > *x.MaxCostUSD {
			c.f.err(ruleXPawl, at("tools", tool, "cost"), "Raise max_cost_usd, or say what a call really costs at most.",
				"the cost %v is more than max_cost_usd %v: no call would ever fit", *cost, *x.MaxCostUSD)
		}
	}
	switch {
	case x.OnBudget == "":
	case c.doc.Workflow.States[x.OnBudget] == nil:
		c.f.err(ruleXPawlRef, at("on_budget"), "", "%s is not a state; states: %s", quote(x.OnBudget), c.stateNames())
	case x.MaxTokens == nil && x.MaxCostUSD == nil:
		c.f.warn(ruleXPawl, at("on_budget"), "Set max_cost_usd or max_tokens.",
			"there is no budget to reach: the state %s is entered so only by runs that spend of a lease", quote(x.OnBudget))
	}
}

// unleased warns of agents that are never called: a delegation takes two tool calls, its own
// and one of the agent's.
func (c *checker) unleased(b *Budget) {
	if b.MaxToolCalls == nil || *b.MaxToolCalls != 1 {
		return
	}
	for _, tool := range keys(c.listed) {
		if c.isMember(tool) {
			c.f.warn(ruleXPawl, pointer("workflow", "engine", "budget", "max_tool_calls"), "Allow 2 or more.",
				"one tool call never holds the agent %s: its call is one, and the agent is leased at least one of its own", quote(tool))
			return
		}
	}
}

// reachable are the states that a run can visit which begins in start: by events, by forced
// exits, and where it cannot pay for a step.
func (p *Pack) reachable(start string) []string {
	states, found := p.Doc.Workflow.States, reachable(p.Doc.Workflow.States, start)
	for _, name := range reachable(states, p.XPawl().OnBudget) {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// compileCosts says whether a ledger is kept, for all runs of the pack alike, and where a run
// goes that cannot pay for a step; a graph of one prompt has no other state.
func (p *Pack) compileCosts(g *machine.Graph) {
	x := p.XPawl()
	g.Ledger = x.keepsLedger()
	if g.States[x.OnBudget] != nil {
		g.OnBudget = x.OnBudget
	}
}

// keepsLedger: one cost, or on_budget, and all steps of the pack's runs are held to the budget.
func (x *XPawl) keepsLedger() bool {
	for _, limits := range x.Tools {
		if limits.Cost != nil {
			return true
		}
	}
	return x.OnBudget != ""
}

// costOf is a cost in micro-dollars; 0 = not said.
func costOf(usd *float64) int64 {
	if usd == nil {
		return 0
	}
	return machine.MicroUSD(*usd)
}

// wrapUp adds what a run may visit from x_pawl.on_budget on: it is entered once at most,
// with whatever is left of the guards.
func (a *analysis) wrapUp(t *Termination) {
	at := a.flow.at(a.pack.XPawl().OnBudget)
	if at == none {
		return
	}
	rest := a.flow.terminate(at, a.residue, a.work)
	switch {
	case !t.Bounded:
	case !rest.Bounded:
		*t = *rest
	default:
		sum := addSat(*t.MaxVisits, *rest.MaxVisits)
		t.bound(sum, union(t.BoundedBy, rest.BoundedBy))
		t.Exact = false
	}
}

// union keeps the order; "acyclic" is the word of a flow that has nothing else.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(s string) bool { return s == "acyclic" })
	}
	return all
}
