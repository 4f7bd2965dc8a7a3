package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// LimitOf is what a run may consume in all; 0 = no limit. [CallsOf] has its tool calls.
func LimitOf(g *machine.Graph, s *machine.State) machine.Amount {
	if s.Account != nil {
		return machine.Amount{Tokens: s.Account.Limit.Tokens, CostMicro: s.Account.Limit.CostMicro}
	}
	return machine.Amount{Tokens: g.Budget.MaxTokens, CostMicro: g.Budget.MaxCostMicroUSD}
}

// CallsOf is how many tool calls a run may make in all, those of its agents with them: its
// pack's word, or its lease where that is less; 0 = no limit.
func CallsOf(g *machine.Graph, s *machine.State) int64 {
	limit := int64(g.Budget.MaxToolCalls)
	if s.Account != nil && s.Account.Limit.ToolCalls > 0 && (limit == 0 || s.Account.Limit.ToolCalls < limit) {
		return s.Account.Limit.ToolCalls
	}
	return limit
}
