//go:build sim

package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// These constants bound what all runs of a tenant may cost in a day, and those of one tenant in a
// month, before a raise, in micro-dollars.
const (
	tenantDay = 500
	acmeMonth = 800
	raisedBy  = 250
)

// plentiful is the limit of an account that counts all runs. It is so large that no request exceeds it.
const plentiful = 1 << 40

// budgets is the operator's file of a node after the given number of raises.
func budgets(raises int64) *budget.Table {
	t, err := budget.NewTable([]budget.Account{
		{Label: "tenant", Window: budget.Day, MaxCostMicro: tenantDay + raises*raisedBy},
		{Label: "tenant", Value: "acme", Window: budget.Month, MaxCostMicro: acmeMonth + raises*raisedBy},
		{Window: budget.Ever, MaxTokens: plentiful, MaxCostMicro: plentiful},
	})
	if err != nil {
		panic(err)
	}
	return t
}

// newAccounts makes the ledger of accounts for a store, as package server does.
func (n *node) newAccounts(s *store.Store) (*budget.Ledger, error) {
	var rows []machine.AccountRow
	err := s.View(func(txn *layout.Txn) (err error) {
		rows, err = layout.Accounts(txn)
		return err
	})
	return budget.New(budgets(n.raises), rows), err
}

// fund raises what tenants may spend on a node, as SIGHUP does.
func (n *node) fund() {
	n.raises++
	if p := n.process(); p != nil {
		p.accounts.Replace(budgets(n.raises))
	}
}

// books are the accounts of a node, computed from the records of its runs without the ledger.
type books struct {
	rows map[string]*book
}

// book is one account.
type book struct {
	// window is the newest window in which anything was counted. settled is what was consumed in it.
	// untold is the part of settled, in micro-dollars, that no reservation covered.
	window  int64
	settled machine.Amount
	untold  int64
	// windows are the windows of each run. held is what each run has reserved.
	windows map[string]int64
	held    map[string]machine.Amount
}

func (b *book) turn(window int64) {
	if window > b.window {
		b.window, b.settled, b.untold = window, machine.Amount{}, 0
	}
}

// begins is when the window of an account of that kind began, in UTC.
func begins(kind budget.Window, at int64) int64 {
	year, month, day := time.Unix(0, at).UTC().Date()
	switch kind {
	case budget.Day:
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).UnixNano()
	case budget.Month:
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	}
	return 0
}

// charged is an account that a run is counted in.
type charged struct {
	name   string
	window budget.Window
	limit  int64
}

func (n *node) accountsOf(s *machine.State) []charged {
	all := []charged{{name: "/ever", window: budget.Ever, limit: plentiful}}
	for _, l := range s.Labels {
		if l.Key == "tenant" {
			all = append(all, charged{"tenant=" + l.Value + "/day", budget.Day, tenantDay + n.raises*raisedBy})
		}
		if l.Key == "tenant" && l.Value == "acme" {
			all = append(all, charged{"tenant=acme/month", budget.Month, acmeMonth + n.raises*raisedBy})
		}
	}
	return all
}

// count adds what a journal entry changed in the accounts of its run.
func (o *oracle) count(e *machine.Entry, s *spent) {
	state := o.states[e.RunID]
	if state == nil {
		return
	}
	more := machine.Amount{Tokens: s.tokens - s.counted.Tokens, CostMicro: s.cost - s.counted.CostMicro}
	all := s.sum()
	held := machine.Amount{Tokens: all.Tokens - s.tokens, CostMicro: all.CostMicro - s.cost}
	if more == (machine.Amount{}) && held == s.heldBefore {
		return
	}
	untold := s.untold.CostMicro - s.untoldBefore.CostMicro
	s.counted, s.heldBefore, s.untoldBefore = machine.Amount{Tokens: s.tokens, CostMicro: s.cost}, held, s.untold
	for _, c := range o.node.accountsOf(state) {
		b := o.books.rows[c.name]
		if b == nil {
			b = &book{windows: map[string]int64{}, held: map[string]machine.Amount{}}
			o.books.rows[c.name] = b
		}
		window := begins(c.window, state.At)
		b.turn(window)
		b.windows[e.RunID] = max(b.windows[e.RunID], window)
		b.held[e.RunID] = held
		if b.windows[e.RunID] == b.window {
			b.settled.Tokens, b.settled.CostMicro = b.settled.Tokens+more.Tokens, b.settled.CostMicro+more.CostMicro
			b.untold += untold
		}
		if sum := b.settled.CostMicro + b.reserved().CostMicro - b.untold; sum > c.limit {
			o.world.fail("no account is overspent", "%s: %s has %+v settled, %d of it unreserved, and %+v reserved behind record %d of %s, of %d",
				o.node.name, c.name, b.settled, b.untold, b.held, e.First, e.RunID, c.limit)
		}
	}
}

func (b *book) reserved() (all machine.Amount) {
	for _, h := range b.held {
		all.Tokens, all.CostMicro = all.Tokens+h.Tokens, all.CostMicro+h.CostMicro
	}
	return all
}

// audited compares the accounts, when all runs have ended, with the consumption of their runs.
func (w *world) audited() {
	for i, n := range w.stores {
		p := n.process()
		if p == nil {
			continue
		}
		views, _, err := p.house.Accounts(n.as(operator), "", "", 100)
		if err != nil {
			w.fail("the account is the sum of its runs", "%s: %v", n.name, err)
		}
		shown := map[string]budget.View{}
		for _, v := range views {
			shown[v.Name] = v
			if v.Held != (machine.Amount{}) {
				w.fail("nothing stays reserved at the end", "%s: %s has %+v reserved", n.name, v.Name, v.Held)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(w.oracles[i].books.rows)) {
			b := w.oracles[i].books.rows[name]
			b.turn(shown[name].Begin)
			if v := shown[name]; v.Settled != b.settled {
				w.fail("the account is the sum of its runs", "%s: %s has %+v settled since %v, its runs %+v", n.name, name, v.Settled, time.Unix(0, v.Begin).UTC(), b.settled)
			}
		}
	}
}

// loan is the lease of one step, and what was settled of it, by attempt.
type loan struct {
	bound   machine.Amount
	settled map[int]settlement
}

// settlement is how an attempt ended. sure means that its agent reported the consumption.
type settlement struct {
	used machine.Amount
	sure bool
}

// lends follows the leases of a run.
func (o *oracle) lends(e *machine.Entry, r *machine.Record, s *spent) {
	settle := func(step uint32, attempt int, used machine.Usage, sure bool) {
		l := s.loans[step]
		if l == nil {
			return
		}
		got := settlement{used: machine.Amount{Tokens: used.InputTokens + used.OutputTokens, CostMicro: used.CostMicro, ToolCalls: int64(used.ToolCalls)}, sure: sure}
		if got.used.Tokens > l.bound.Tokens && l.bound.Tokens > 0 || got.used.CostMicro > l.bound.CostMicro && l.bound.CostMicro > 0 ||
			got.used.ToolCalls > l.bound.ToolCalls && l.bound.ToolCalls > 0 {
			o.world.fail("what a child was leased is spent or given back", "%s: step %d of %s settles %+v of %+v", o.node.name, step, e.RunID, got.used, l.bound)
		}
		l.settled[attempt] = got
	}
	switch b := r.Body.(type) {
	case *machine.StepRequested:
		if b.Delegation {
			s.loans[b.Step] = &loan{settled: map[int]settlement{}, bound: machine.Amount{
				Tokens: b.Bound.InputTokens + b.Bound.OutputTokens, CostMicro: b.Bound.CostMicro, ToolCalls: int64(b.Bound.ToolCalls),
			}}
		}
	case *machine.StepResolved:
		byHand := e.Input.Principal == approver.Principal.Name()
		settle(b.Step, b.Attempt, b.Usage, !b.Unknown && !byHand)
	case *machine.StepCancelled:
		if l := s.loans[b.Step]; l != nil {
			settle(b.Step, len(l.settled)+1, b.Usage, false)
		}
	}
}

// leases compares, at the end, the consumption of agents with what was settled of their leases.
func (w *world) leases() {
	for i, n := range w.stores {
		for _, run := range slices.Sorted(maps.Keys(w.oracles[i].spent)) {
			s := w.oracles[i].spent[run]
			if s.parent == nil || !s.keepsLedger {
				continue
			}
			lender := w.oracle(n.other).spent[s.parent.RunID]
			if lender == nil || lender.loans[s.parent.Step] == nil {
				w.fail("what a child was leased is spent or given back", "%s: %s has a lease of %+v, which nobody knows of", n.name, run, *s.parent)
				continue
			}
			l := lender.loans[s.parent.Step]
			used := machine.Amount{Tokens: s.tokens, CostMicro: s.cost, ToolCalls: int64(s.calls - s.effects.undos)}
			if got, over := l.settled[s.parent.Attempt]; !over || s.lease != l.bound || got.sure && got.used != used || used.CostMicro > got.used.CostMicro || used.Tokens > got.used.Tokens || used.ToolCalls > got.used.ToolCalls {
				w.fail("what a child was leased is spent or given back", "%s: %s consumed %+v of the lease %+v, it was lent %+v by step %d of %s, which settled %+v",
					n.name, run, used, s.lease, l.bound, s.parent.Step, s.parent.RunID, l.settled)
			}
		}
	}
}

// shown checks that a run that has ended has no reservation and reports its consumption.
func (w *world) shown() {
	for i, n := range w.stores {
		for _, run := range slices.Sorted(maps.Keys(w.oracles[i].spent)) {
			s := w.oracles[i].spent[run]
			if w.oracles[i].deleting[run] || !s.keepsLedger {
				continue
			}
			got, err := n.runs.GetRun(context.Background(), &pawlv1.GetRunRequest{RunId: run})
			if r := got.GetRun(); err != nil || r.GetReservedTokens() != 0 || r.GetReservedCostMicroUsd() != 0 || r.GetTokens() != s.tokens || r.GetCostMicroUsd() != s.cost {
				w.fail("nothing stays reserved at the end", "%s: %s has consumed %d tokens and %d micro-dollars, and is shown as %v, %v", n.name, run, s.tokens, s.cost, r, err)
			}
		}
	}
}
