package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// LimitOf returns the largest number of tokens and the largest cost that a run may consume in total. 0
// means that there is no limit. [CallsOf] returns the limit of tool calls.
func LimitOf(g *machine.Graph, s *machine.State) machine.Amount {
	if s.Account != nil {
		return machine.Amount{Tokens: s.Account.Limit.Tokens, CostMicro: s.Account.Limit.CostMicro}
	}
	return machine.Amount{Tokens: g.Budget.MaxTokens, CostMicro: g.Budget.MaxCostMicroUSD}
}

// CallsOf returns the number of tool calls that a run and its agents may make in total. 0 means that
// there is no limit. The result is the lower one of the limit of the pack and the limit of the lease.
func CallsOf(g *machine.Graph, s *machine.State) int64 {
	limit := int64(g.Budget.MaxToolCalls)
	if s.Account != nil && s.Account.Limit.ToolCalls > 0 && (limit == 0 || s.Account.Limit.ToolCalls < limit) {
		return s.Account.Limit.ToolCalls
	}
	return limit
}
