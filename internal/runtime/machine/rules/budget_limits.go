package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// LimitOf returns the total that a run may consume; 0 = no limit. The limit of tool calls comes from
// [CallsOf].
func LimitOf(g *machine.Graph, s *machine.State) machine.Amount {
	if s.Account != nil {
		return machine.Amount{Tokens: s.Account.Limit.Tokens, CostMicro: s.Account.Limit.CostMicro}
	}
	return machine.Amount{Tokens: g.Budget.MaxTokens, CostMicro: g.Budget.MaxCostMicroUSD}
}

// CallsOf returns how many tool calls a run may make in total, including those of its agents: the pack's
// limit, or the lease's if that is lower; 0 = no limit.
func CallsOf(g *machine.Graph, s *machine.State) int64 {
	limit := int64(g.Budget.MaxToolCalls)
	if s.Account != nil && s.Account.Limit.ToolCalls > 0 && (limit == 0 || s.Account.Limit.ToolCalls < limit) {
		return s.Account.Limit.ToolCalls
	}
	return limit
}
