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
	return reserved(s, func(i int) bool { return i == but })
}

// reserved leaves out the steps that are passed over.
func reserved(s *machine.State, passed func(i int) bool) (tokens, cost int64) {
	for i := range s.Steps {
		p := &s.Steps[i]
		if passed(i) || p.Status != machine.StepStatusPending {
			continue
		}
		b := BoundOf(p)
		tokens, cost = AddCapped(tokens, b.Tokens), AddCapped(cost, b.CostMicro)
	}
	if s.Account == nil {
		return tokens, cost
	}
	for i := range s.Account.Unreported {
		b := &s.Account.Unreported[i].Bound
		tokens, cost = AddCapped(tokens, b.Tokens), AddCapped(cost, b.CostMicro)
	}
	return tokens, cost
}

// Lent is what of that the runs of agents may consume: the leases of delegations under way.
func Lent(s *machine.State) (lent machine.Amount) { return lentBut(s, -1) }

// lentBut is that of all delegations but the step at an index. Tool calls are reserved for
// agents alone: that of a step itself counts as soon as it is asked for.
func lentBut(s *machine.State, but int) (lent machine.Amount) {
	for i := range s.Steps {
		if p := &s.Steps[i]; i != but && p.Delegation && p.Status == machine.StepStatusPending {
			b := BoundOf(p)
			lent.Tokens, lent.CostMicro = AddCapped(lent.Tokens, b.Tokens), AddCapped(lent.CostMicro, b.CostMicro)
			lent.ToolCalls = AddCapped(lent.ToolCalls, b.ToolCalls)
		}
	}
	return lent
}

// Settled is what a run has consumed, its children with it.
func Settled(s *machine.State) machine.Amount {
	return machine.Amount{Tokens: s.Tokens, CostMicro: s.CostMicro}
}

// Committed is what a run has consumed and what it may by what is under way: what it keeps
// others from spending.
func Committed(s *machine.State) machine.Amount {
	tokens, cost := Reserved(s, -1)
	return machine.Amount{Tokens: AddCapped(s.Tokens, tokens), CostMicro: AddCapped(s.CostMicro, cost)}
}
