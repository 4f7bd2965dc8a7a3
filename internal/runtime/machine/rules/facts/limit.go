package facts

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// LimitOf is what a run may consume in all; 0 = no limit.
func LimitOf(g *machine.Graph, s *machine.State) machine.Amount {
	if s.Account != nil {
		return s.Account.Limit
	}
	return machine.Amount{Tokens: g.Budget.MaxTokens, CostMicro: g.Budget.MaxCostMicroUSD}
}
