package pack

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// costs checks the maximum costs of steps, and the state that a run enters if the budget does not cover
// a step (on_budget).
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

// reportUncallableAgents reports that agents can never be called because the budget is too small. It names only the first. A delegation
// needs two tool calls of the budget: the call itself and at least one call of the agent.
func (c *checker) reportUncallableAgents(b *Budget) {
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

// reachableStates returns the states that a run can visit if it begins in start. It follows events, forced
// exits, and on_budget.
func (p *Pack) reachableStates(start string) []string {
	states, found := p.Doc.Workflow.States, reachableByEvents(p.Doc.Workflow.States, start)
	for _, name := range reachableByEvents(states, p.XPawl().OnBudget) {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// compileCosts sets whether all steps of a run are checked against the budget (g.Ledger), and the state
// that a run enters if the budget does not cover a step. The graph of a single prompt has no such
// state.
func (p *Pack) compileCosts(g *machine.Graph) {
	x := p.XPawl()
	g.Ledger = x.keepsLedger()
	if g.States[x.OnBudget] != nil {
		g.OnBudget = x.OnBudget
	}
}

// keepsLedger reports whether all steps of the pack's runs are checked against the budget. This is the
// case if the pack sets the cost of a tool, or on_budget.
func (x *XPawl) keepsLedger() bool {
	for _, limits := range x.Tools {
		if limits.Cost != nil {
			return true
		}
	}
	return x.OnBudget != ""
}

// costOf converts a cost to micro-dollars. If usd is nil, it returns 0.
func costOf(usd *float64) int64 {
	if usd == nil {
		return 0
	}
	return machine.MicroUSD(*usd)
}

// wrapUp adds to t the visits that a run may make after it has entered the state x_pawl.on_budget, to which a run goes when its budget is
// used up. A run enters this state at most once, and the counts of the guards continue. If t or the visits after this state have no bound,
// t has none afterwards.
func (a *analysis) wrapUp(t *Termination) {
	at := a.flow.stateIndex(a.pack.XPawl().OnBudget)
	if at == noState {
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

// union joins two lists and keeps their order. It drops "acyclic" if there is another bound, because
// "acyclic" describes a flow that has no other bounds.
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
