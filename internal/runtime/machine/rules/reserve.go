package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Reservations in the ledger of a run (semantics §6). The maximum consumption of a pending step is reserved from the record of its
// request to the record of its answer, and its real consumption is settled with the answer. Both are computed from the state alone, so
// the effect of an input is the difference between two states.

// Reserved returns the maximum that the pending steps of a run may consume, without the step at the
// index `but` (-1 means all steps). It includes tools with a cost, delegations with their leases, and
// model calls, including model calls whose consumption was never reported. A run that has ended has no
// reservations.
func Reserved(s *machine.State, but int) (tokens, cost int64) {
	return reserved(s, func(i int) bool { return i == but })
}

// reserved returns the sum of two parts: the bounds of the pending steps, except those for which passed
// returns true, and the bounds of the calls without reported usage.
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

// Lent returns the sum of the leases of all pending delegations. It is the part of the reservations that runs of agents may consume.
func Lent(s *machine.State) (lent machine.Amount) { return lentBut(s, -1) }

// lentBut is Lent without the step at the index `but`. It includes tool calls, which are reserved only
// for agents. The run's own call of a step is counted when the step is issued.
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

// Settled returns the tokens and cost that a run has consumed, including the consumption of its children.
func Settled(s *machine.State) machine.Amount {
	return machine.Amount{Tokens: s.Tokens, CostMicro: s.CostMicro}
}

// Committed returns the amount that a run has consumed plus the maximum that its pending steps may
// consume.
func Committed(s *machine.State) machine.Amount {
	tokens, cost := Reserved(s, -1)
	return machine.Amount{Tokens: AddCapped(s.Tokens, tokens), CostMicro: AddCapped(s.CostMicro, cost)}
}
