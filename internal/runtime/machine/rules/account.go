package rules

import (
	"math"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file computes the operator's accounts over many runs. The engine stamps into each input the
// accounts in which the input is counted, and whether these accounts can cover it. The amount of a run
// in an account is computed from the run's state before and after the input.

// AccountExhausted is the first part of the reason of a run that ended because an account could not
// cover a request. The name of the account is the second part.
const AccountExhausted = "account_exhausted"

// ReservedInAccounts returns the amounts that pending steps may consume, in the way in which the
// accounts of the run count them. Agents of this store are not counted, because their runs reserve
// their own amounts.
func ReservedInAccounts(s *machine.State) (tokens, cost int64) { return reservedInAccountsBut(s, -1) }

// reservedInAccountsBut is ReservedInAccounts without the step at the index `but`.
func reservedInAccountsBut(s *machine.State, but int) (tokens, cost int64) {
	if s == nil {
		return 0, 0
	}
	return reserved(s, func(i int) bool { return i == but || s.Steps[i].Local })
}

// SettledInAccounts returns the amounts that were settled in the accounts of the run. They do not
// include the consumption of runs of agents of this store.
func SettledInAccounts(s *machine.State) (tokens, cost int64) {
	if s == nil {
		return 0, 0
	}
	return max(0, s.Tokens-s.Apart.Tokens), max(0, s.CostMicro-s.Apart.CostMicro)
}

// settleOf adds the consumption of a step to the run. For a local agent it also adds the consumption to
// Apart. Apart is the part that the agent's own run counts in the accounts.
func (t *txn) settleOf(step *machine.ToolStep, u machine.Usage) {
	t.settle(u)
	if step.Local {
		t.s.Apart.Tokens = AddCapped(t.s.Apart.Tokens, AddCapped(u.InputTokens, u.OutputTokens))
		t.s.Apart.CostMicro = AddCapped(t.s.Apart.CostMicro, u.CostMicro)
	}
}

// countsItself reports whether the run of the called agent is counted separately in the accounts of
// this run. If this run is not counted in any account, the agent's run is not counted either, because
// the step that began this run settles the consumption of both.
func (t *txn) countsItself(a *ask) bool {
	_, counted := t.s.Accountable()
	return t.rules.agentsCount && counted && a.Local && t.g.Tools[a.Tool].Agent
}

// ChargeOf returns the charge of a run in an account. If the run has none, it returns a charge that has only the name of the account.
func ChargeOf(s *machine.State, account string) machine.Charge {
	if s != nil {
		for _, c := range s.Charges {
			if c.Account == account {
				return c
			}
		}
	}
	return machine.Charge{Account: account}
}

// Charged returns a charge after an input is applied that is counted in the given window of the
// account. An amount that was reserved in an earlier window is settled in the window of its answer.
func Charged(c machine.Charge, window int64, before, after *machine.State) machine.Charge {
	if window > c.Window {
		c.Window, c.Tokens, c.CostMicro = window, 0, 0
	}
	had, hadCost := SettledInAccounts(before)
	has, hasCost := SettledInAccounts(after)
	c.Tokens, c.CostMicro = atMost(AddCapped(c.Tokens, max(0, has-had))), atMost(AddCapped(c.CostMicro, max(0, hasCost-hadCost)))
	tokens, cost := ReservedInAccounts(after)
	c.HeldTokens, c.HeldCostMicro = atMost(tokens), atMost(cost)
	return c
}

func atMost(n int64) int64 { return min(n, machine.MaxCharge) }

// applyCharges updates the run's charges after the input.
func (t *txn) applyCharges(b *machine.Batch) {
	for _, bill := range t.in.Billed {
		before := ChargeOf(t.s, bill.Account)
		after := Charged(before, bill.Window, t.old, t.s)
		if before == after {
			continue
		}
		b.Charged = append(b.Charged, machine.ChargeChange{Before: before, After: after})
		t.s.Charges = slices.Clone(t.s.Charges)
		i := slices.IndexFunc(t.s.Charges, func(c machine.Charge) bool { return c.Account == bill.Account })
		if i < 0 {
			t.s.Charges = append(t.s.Charges, after)
			continue
		}
		t.s.Charges[i] = after
	}
}

// exhausted returns the reason that names the first account that cannot cover the run's settled and
// reserved amounts plus `asked`. It returns "" if all accounts can cover them. The step at index i is
// not counted.
func (t *txn) exhausted(i int, asked machine.Amount) string {
	now, had := inAccounts(t.s, i), inAccounts(t.old, -1)
	now.Tokens, now.CostMicro = AddCapped(now.Tokens, asked.Tokens), AddCapped(now.CostMicro, asked.CostMicro)
	for j := range t.in.Billed {
		bill := &t.in.Billed[j]
		if !bill.Short {
			continue
		}
		if asked.Tokens > 0 && more(now.Tokens, had.Tokens) > bill.LeftTokens || asked.CostMicro > 0 && more(now.CostMicro, had.CostMicro) > bill.LeftCostMicro {
			return AccountExhausted + ":" + bill.Account
		}
	}
	return ""
}

// inAccounts returns the amount that a run has settled and reserved in its accounts, without the step at the index `but`.
func inAccounts(s *machine.State, but int) machine.Amount {
	spent, spentCost := SettledInAccounts(s)
	held, heldCost := reservedInAccountsBut(s, but)
	return machine.Amount{Tokens: AddCapped(spent, held), CostMicro: AddCapped(spentCost, heldCost)}
}

// more returns the increase from before to now. If now is the largest int64, more returns the largest
// int64, because a capped figure must exceed every limit.
func more(now, before int64) int64 {
	if now == math.MaxInt64 {
		return now
	}
	return now - before
}
