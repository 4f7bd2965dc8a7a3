package rules

import (
	"math"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Accounts of the operator over runs. Which of them an input is counted in, and whether
// they hold it, is stamped into the input; what the run takes of them is what its state
// says, before and after.

// AccountExhausted begins the reason of a run that ended because an account did not hold
// what it asked for; the account's name follows.
const AccountExhausted = "account_exhausted"

// ReservedInAccounts is what pending steps may consume, in the accounts of the run. What runs of agents of
// this store may, these reserve themselves.
func ReservedInAccounts(s *machine.State) (tokens, cost int64) { return reservedInAccountsBut(s, -1) }

// reservedInAccountsBut leaves out the step at an index.
func reservedInAccountsBut(s *machine.State, but int) (tokens, cost int64) {
	if s == nil {
		return 0, 0
	}
	return reserved(s, func(i int) bool { return i == but || s.Steps[i].Local })
}

// SettledInAccounts is what was settled in the accounts of the run, without what runs of agents of this
// store consumed.
func SettledInAccounts(s *machine.State) (tokens, cost int64) {
	if s == nil {
		return 0, 0
	}
	return max(0, s.Tokens-s.Apart.Tokens), max(0, s.CostMicro-s.Apart.CostMicro)
}

// settleOf settles what a step consumed.
func (t *txn) settleOf(step *machine.ToolStep, u machine.Usage) {
	t.settle(u)
	if step.Local {
		t.s.Apart.Tokens = AddCapped(t.s.Apart.Tokens, AddCapped(u.InputTokens, u.OutputTokens))
		t.s.Apart.CostMicro = AddCapped(t.s.Apart.CostMicro, u.CostMicro)
	}
}

// countsItself: the run of the agent that is called counts itself in the accounts of this one.
// A run that is in none has none to count in: the step that began it settles all.
func (t *txn) countsItself(a *ask) bool {
	_, counted := t.s.Accountable()
	return t.rules.agentsCount && counted && a.Local && t.g.Tools[a.Tool].Agent
}

// ChargeOf is what a run takes of an account; zero but for its name if it takes nothing.
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

// Charged is a charge after an input that is counted in a window of its account. What was
// reserved in a window before is settled in the one in which its answer comes.
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

// applyCharges brings the run's charges up to date with what the input made of it.
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

// exhausted is the first account that does not hold what the run would then have settled
// and reserved, the step at an index left out, with what it asks for more; "" = all do.
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

// inAccounts is what a run has settled and reserved in its accounts, but for the step at an index.
func inAccounts(s *machine.State, but int) machine.Amount {
	spent, spentCost := SettledInAccounts(s)
	held, heldCost := reservedInAccountsBut(s, but)
	return machine.Amount{Tokens: AddCapped(spent, held), CostMicro: AddCapped(spentCost, heldCost)}
}

// more is what comes to a figure; a figure that is as large as any is more than all.
func more(now, before int64) int64 {
	if now == math.MaxInt64 {
		return now
	}
	return now - before
}
