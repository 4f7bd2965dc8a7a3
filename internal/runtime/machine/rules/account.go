package rules

import (
	"math"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules/facts"
)

// Accounts of the operator over runs. Which of them an input is counted in, and whether
// they hold it, is stamped into the input; what the run takes of them is what its state
// says, before and after.

// AccountExhausted begins the reason of a run that ended because an account did not hold
// what it asked for; the account's name follows.
const AccountExhausted = "account_exhausted"

// Held is what pending steps may consume.
func Held(s *machine.State) (tokens, cost int64) {
	if s == nil {
		return 0, 0
	}
	return Reserved(s, -1)
}

// Spent is what was settled.
func Spent(s *machine.State) (tokens, cost int64) {
	if s == nil {
		return 0, 0
	}
	return s.Tokens, s.CostMicro
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
	had, hadCost := Spent(before)
	has, hasCost := Spent(after)
	c.Tokens, c.CostMicro = atMost(facts.AddCapped(c.Tokens, max(0, has-had))), atMost(facts.AddCapped(c.CostMicro, max(0, hasCost-hadCost)))
	tokens, cost := Held(after)
	c.HeldTokens, c.HeldCostMicro = atMost(tokens), atMost(cost)
	return c
}

func atMost(n int64) int64 { return min(n, machine.MaxCharge) }

// bill brings the run's charges up to date with what the input made of it.
func (t *txn) bill(b *machine.Batch) {
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
// and reserved, of what it asks for more; "" = all do.
func (t *txn) exhausted(tokens, cost int64, asked machine.Amount) string {
	for i := range t.in.Billed {
		bill := &t.in.Billed[i]
		if !bill.Short {
			continue
		}
		var had machine.Amount
		if t.old != nil {
			had = Committed(t.old)
		}
		if asked.Tokens > 0 && more(tokens, had.Tokens) > bill.LeftTokens || asked.CostMicro > 0 && more(cost, had.CostMicro) > bill.LeftCostMicro {
			return AccountExhausted + ":" + bill.Account
		}
	}
	return ""
}

// more is what comes to a figure; a figure that is as large as any is more than all.
func more(now, before int64) int64 {
	if now == math.MaxInt64 {
		return now
	}
	return now - before
}
