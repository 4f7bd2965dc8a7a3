package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// LimitOf returns the most tokens and cost that a run may consume in total; 0 = no limit. [CallsOf] returns the limit of tool calls.
func LimitOf(g *machine.Graph, s *machine.State) machine.Amount {
	if s.Account != nil {
		return machine.Amount{Tokens: s.Account.Limit.Tokens, CostMicro: s.Account.Limit.CostMicro}
	}
	return machine.Amount{Tokens: g.Budget.MaxTokens, CostMicro: g.Budget.MaxCostMicroUSD}
}

// CallsOf returns how many tool calls a run and its agents may make in total; 0 = no limit. This is the limit of the pack, or of the
// lease if that is lower.
func CallsOf(g *machine.Graph, s *machine.State) int64 {
	limit := int64(g.Budget.MaxToolCalls)
	if s.Account != nil && s.Account.Limit.ToolCalls > 0 && (limit == 0 || s.Account.Limit.ToolCalls < limit) {
		return s.Account.Limit.ToolCalls
	}
	return limit
}
