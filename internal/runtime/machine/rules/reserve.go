package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The ledger of a run (section 6): what its pending steps may consume at most is reserved
// from the record that asks for them to the one that answers them, and what they consumed
// is settled with that one. Both are functions of the state alone, so that the difference
// of two states is what an input moved.

// Reserved is what pending steps may consume at most, the step at index but left out
// (-1: none): calls of models, also those of which nobody knows what they consumed, tools
// with a cost, delegations with their leases. A run that has ended has nothing reserved.
func Reserved(s *machine.State, but int) (tokens, cost int64) {
	for i := range s.Steps {
		p := &s.Steps[i]
		if i == but || p.Status != machine.StepStatusPending {
			continue
		}
		b := boundOf(p)
		tokens, cost = addCapped(tokens, b.Tokens), addCapped(cost, b.CostMicro)
	}
	if s.Account == nil {
		return tokens, cost
	}
	for i := range s.Account.Owed {
		b := &s.Account.Owed[i].Bound
		tokens, cost = addCapped(tokens, b.Tokens), addCapped(cost, b.CostMicro)
	}
	return tokens, cost
}

// boundOf is what a pending step may consume at most.
func boundOf(p *machine.ToolStep) machine.Amount {
	if p.Model != nil {
		return machine.Amount{Tokens: p.Model.Tokens, CostMicro: p.Model.CostMicro}
	}
	return p.Bound
}

// Settled is what a run has consumed, its children with it.
func Settled(s *machine.State) machine.Amount {
	return machine.Amount{Tokens: s.Tokens, CostMicro: s.CostMicro}
}

// Committed is what a run has consumed and what it may by what is under way: what it keeps
// others from spending.
func Committed(s *machine.State) machine.Amount {
	tokens, cost := Reserved(s, -1)
	return machine.Amount{Tokens: addCapped(s.Tokens, tokens), CostMicro: addCapped(s.CostMicro, cost)}
}

// LimitOf is what a run may consume in all; 0 = no limit.
func LimitOf(g *machine.Graph, s *machine.State) machine.Amount {
	if s.Account != nil {
		return s.Account.Limit
	}
	return machine.Amount{Tokens: g.Budget.MaxTokens, CostMicro: g.Budget.MaxCostMicroUSD}
}
