package invariant

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// ledger checks that the consumption of the run is within its limits, and that finished steps have no reservation.
func (c *checker) ledger() {
	s, limit := c.s, rules.LimitOf(c.g, c.s)
	c.require(limit.Tokens == 0 || s.Tokens <= limit.Tokens, "%d tokens", s.Tokens)
	c.require(limit.CostMicro == 0 || s.CostMicro <= limit.CostMicro, "%d micro-dollars", s.CostMicro)
	c.require(min(s.Apart.Tokens, s.Apart.CostMicro) >= 0 && s.Apart.Tokens <= s.Tokens && s.Apart.CostMicro <= s.CostMicro && s.Apart.ToolCalls == 0,
		"%+v of %d tokens and %d micro-dollars are counted apart", s.Apart, s.Tokens, s.CostMicro)
	for i := range s.Steps {
		p := &s.Steps[i]
		c.require(!p.Local || p.Delegation, "step %d, of no agent, is local", p.Step)
		c.require(p.Bound == (machine.Amount{}) || p.Status == machine.StepStatusPending && p.Model == nil, "step %d holds %+v", p.Step, p.Bound)
		c.require(min(p.Bound.Tokens, p.Bound.CostMicro, p.Bound.ToolCalls) >= 0, "step %d: %+v", p.Step, p.Bound)
		c.require(p.Bound.ToolCalls == 0 || p.Delegation, "step %d, of no agent, has leased %d tool calls", p.Step, p.Bound.ToolCalls)
	}
}

// account checks that a run that has ended, or that has no budget, waits for no unreported usage.
func (c *checker) account() {
	if a := c.s.Account; a != nil && len(a.Unreported) > 0 {
		c.require(len(a.Unreported) <= machine.MaxUnreportedUsage && !c.s.Status.Terminal() && (rules.KeepsLedger(c.g, c.s) || rules.LimitOf(c.g, c.s) != machine.Amount{}), "%d calls are owed in status %s", len(a.Unreported), c.s.Status)
	}
}
