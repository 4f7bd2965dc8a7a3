package budget

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// graph returns a graph with one state that asks models. A token costs one micro-dollar.
func graph() *machine.Graph {
	return &machine.Graph{
		Digest: "sha256:00", PackID: "p", PackVersion: "1", Entry: "s",
		States: map[string]*machine.Node{"s": {Name: "s", OnEvent: map[string]string{"Go": "e"}}, "e": {Name: "e", Terminal: true}},
		Prices: map[string]machine.Price{"m": {Input: 1_000_000, Output: 1_000_000}},
	}
}

// run is one run under a ledger.
type run struct {
	t      testing.TB
	l      *Ledger
	g      *machine.Graph
	s      *machine.State
	at     time.Time
	rounds int
}

func newRun(t testing.TB, l *Ledger, id string, labels ...machine.Label) *run {
	t.Helper()
	r := &run{t: t, l: l, g: graph(), at: noon}
	r.do(machine.Start{RunID: id, Execution: machine.Caller, Labels: labels})
	return r
}

// take makes an input. It commits the input if stored is true.
func (r *run) take(c machine.Command, stored bool) (machine.Result, error) {
	r.t.Helper()
	result, hold, err := r.l.Decide(r.g, r.s, machine.Input{At: r.at.UnixNano(), Command: c, Semantics: machine.Current})
	hold.Close(err == nil && stored)
	if err == nil && stored {
		r.s = result.State
	}
	return result, err
}

func (r *run) do(c machine.Command) machine.Result {
	r.t.Helper()
	result, err := r.take(c, true)
	if err != nil {
		r.t.Fatalf("%T: %v", c, err)
	}
	return result
}

// ask asks a model with a bound and returns the step; 0 = it was refused.
func (r *run) ask(tokens int64) uint32 {
	r.t.Helper()
	r.rounds++
	result := r.do(r.asked(tokens))
	if d := result.Steps[0].Denial; d != nil && d.Code != "ACCOUNT_EXHAUSTED" {
		r.t.Fatalf("%+v", d)
	}
	return result.Steps[0].Step
}

func (r *run) asked(tokens int64) machine.RequestModel {
	return machine.RequestModel{
		TurnSeq: r.s.Turn.Seq, Attempt: 1, Round: r.rounds, Model: &machine.ModelRequest{Model: "m"},
		Bound: machine.Usage{OutputTokens: tokens, Model: "m"},
	}
}

func (r *run) answer(step uint32, tokens int64) {
	r.t.Helper()
	r.do(machine.AnswerModel{
		TurnSeq: r.s.Turn.Seq, TurnAttempt: 1, Step: step, Attempt: 1, Answer: &machine.ModelAnswer{Parts: []machine.Part{{Kind: machine.PartText, Text: "x"}}},
		Usage: machine.Usage{OutputTokens: tokens, Model: "m"},
	})
}

func tableOf(t testing.TB, accounts ...Account) *Table {
	t.Helper()
	table, err := NewTable(accounts)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// figures returns what an account has settled and what it holds.
func (l *Ledger) figures(name string) (cost, held int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	row := l.row(0, name)
	return row.CostMicro, row.HeldCostMicro
}

func wants(t *testing.T, l *Ledger, name string, settled, held int64) {
	t.Helper()
	if gotSettled, gotHeld := l.figures(name); gotSettled != settled || gotHeld != held {
		t.Errorf("%s: %d settled, %d held, want %d and %d", name, gotSettled, gotHeld, settled, held)
	}
}

var acme = machine.Label{Key: "tenant", Value: "acme"}

// TestAccountIsNeverOver: 64 concurrent runs ask for more than one account has, and some commits fail. The
// account never reserves and settles more than its limit, and it is used up.
func TestAccountIsNeverOver(t *testing.T) {
	t.Parallel()
	const limit = 1_000_000
	l := New(tableOf(t, Account{Label: "tenant", Window: Day, MaxCostMicro: limit}), nil)
	var spent, denied, held atomic.Int64
	watch := func() {
		if settled, held := l.figures("tenant=acme/day"); settled+held > limit {
			t.Errorf("%d settled and %d held of %d", settled, held, limit)
		}
	}
	var all sync.WaitGroup
	var runs [64]*run
	for i := range runs {
		runs[i] = newRun(t, l, fmt.Sprint(i), acme)
		all.Go(func() {
			r, random := runs[i], rand.New(rand.NewPCG(uint64(i), 7))
			for r.s.Status == machine.Running {
				bound := 1 + random.Int64N(5_000)
				if random.IntN(4) == 0 {
					r.rounds++
					if _, err := r.take(r.asked(bound), false); err != nil {
						t.Error(err)
					}
				}
				step := r.ask(bound)
				watch()
				if step == 0 {
					denied.Add(1)
					break
				}
				if random.IntN(50) == 0 {
					held.Add(bound)
					break // it stays under way
				}
				used := 1 + random.Int64N(bound) // An answer of no tokens reports nothing and costs its bound.
				r.answer(step, used)
				spent.Add(used)
			}
		})
	}
	all.Wait()
	wants(t, l, "tenant=acme/day", spent.Load(), held.Load())
	if spent.Load()+held.Load() < limit*95/100 || denied.Load() == 0 {
		t.Errorf("%d spent and %d held of %d, %d refused", spent.Load(), held.Load(), limit, denied.Load())
	}
	var row machine.AccountRow
	for _, r := range runs {
		for _, c := range r.s.Charges {
			row.Add(machine.ChargeChange{After: c})
		}
		if r.s.Status == machine.BudgetExhausted && r.s.Reason != "account_exhausted:tenant=acme/day" {
			t.Errorf("ended %s", r.s.Reason)
		}
	}
	if row.CostMicro != spent.Load() || row.HeldCostMicro != held.Load() {
		t.Errorf("the runs have %+v", row)
	}
}

// TestAllAccountsOrNone: a run of two accounts reserves in both or in neither.
func TestAllAccountsOrNone(t *testing.T) {
	t.Parallel()
	l := New(tableOf(t, Account{Label: "tenant", Window: Day, MaxCostMicro: 100}, Account{Window: Ever, MaxTokens: 30}), nil)
	r := newRun(t, l, "A", acme)
	step := r.ask(20)
	if other := newRun(t, l, "B", acme); other.ask(20) != 0 || other.s.Reason != "account_exhausted:/ever" {
		t.Errorf("%+v", other.s)
	}
	wants(t, l, "tenant=acme/day", 0, 20)
	wants(t, l, "/ever", 0, 20)
	r.answer(step, 5)
	if other := newRun(t, l, "C", acme); other.ask(25) == 0 {
		t.Error("what was given back is not there")
	}
	wants(t, l, "/ever", 5, 25)
	// Nothing is left. A call without a bound needs more than that.
	if other := newRun(t, l, "D"); other.ask(0) != 0 {
		t.Error("a call without a bound of an account that has nothing left")
	}
}

// TestRaiseAndLower: a new table counts from the next input on. If the new table does not have an account,
// what is held on this account is still given back.
func TestRaiseAndLower(t *testing.T) {
	t.Parallel()
	day := Account{Label: "tenant", Window: Day, MaxCostMicro: 100}
	l := New(tableOf(t, day), nil)
	a, b := newRun(t, l, "A", acme), newRun(t, l, "B", acme)
	first, second := a.ask(60), b.ask(40)
	day.MaxCostMicro = 150
	l.Replace(tableOf(t, day))
	c := newRun(t, l, "C", acme)
	third := c.ask(50)
	if first == 0 || second == 0 || third == 0 {
		t.Fatal("refused")
	}
	l.Replace(tableOf(t))
	a.answer(first, 60)
	wants(t, l, "tenant=acme/day", 60, 90)
	if a.ask(1000) == 0 {
		t.Error("nothing bounds it")
	}
	l.Replace(tableOf(t, day))
	b.answer(second, 40)
	wants(t, l, "tenant=acme/day", 100, 50)
	// The last call of this run began without the account. Its next call counts on the account.
	if a.ask(1) != 0 {
		t.Error("more is held than there is")
	}
	wants(t, l, "tenant=acme/day", 100, 50)
}

// TestWindowTurns: a reservation of yesterday counts today, and it is settled today.
func TestWindowTurns(t *testing.T) {
	t.Parallel()
	l := New(tableOf(t, Account{Label: "tenant", Window: Day, MaxCostMicro: 100}), nil)
	a, b := newRun(t, l, "A", acme), newRun(t, l, "B", acme)
	b.answer(b.ask(30), 30)
	step := a.ask(70)
	if c := newRun(t, l, "C", acme); c.ask(1) != 0 {
		t.Error("today's is used up")
	}
	b.at = noon.Add(24 * time.Hour)
	open := b.ask(30)
	if open == 0 {
		t.Error("a new day holds nothing")
	}
	wants(t, l, "tenant=acme/day", 0, 100)
	a.at = b.at
	a.answer(step, 50)
	wants(t, l, "tenant=acme/day", 50, 30)
	// A clock that is set back begins no window again.
	b.answer(open, 10)
	d := newRun(t, l, "D", acme)
	d.answer(d.ask(5), 5)
	wants(t, l, "tenant=acme/day", 60, 0)
}

// TestUnpriced: if an account counts cost, a call of a model without a price is refused.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	l := New(tableOf(t, Account{Label: "tenant", Window: Day, MaxCostMicro: 100}), nil)
	r := newRun(t, l, "A", acme)
	r.g.Prices, r.rounds = nil, 1
	_, err := r.take(r.asked(1), true)
	var refusal *machine.Error
	if !errors.As(err, &refusal) || refusal.Reason != "MODEL_UNPRICED" || !strings.Contains(err.Error(), "--prices") {
		t.Errorf("got %v", err)
	}
	free := newRun(t, l, "B")
	if free.g.Prices = nil; free.ask(1) == 0 {
		t.Error("a run without accounts is refused")
	}
}

// TestForkTakesNothing: a fork has nothing of what its source reserved or settled. A replay makes no further
// charge.
func TestForkTakesNothing(t *testing.T) {
	t.Parallel()
	l := New(tableOf(t, Account{Label: "tenant", Window: Day, MaxCostMicro: 100}), nil)
	r := newRun(t, l, "A", acme)
	r.answer(r.ask(40), 30)
	f := &run{t: t, l: l, g: r.g, at: noon}
	f.do(machine.Fork{RunID: "F", Execution: machine.Caller, Labels: r.s.Labels, Seq: r.s.Seq, From: r.s, ReuseSteps: true,
		Steps: []machine.TakenStep{{Step: 1, Request: &machine.ModelRequest{Model: "m"}, Answer: &machine.ModelAnswer{}}}})
	if len(f.s.Charges) != 0 {
		t.Errorf("the fork has %+v", f.s.Charges)
	}
	wants(t, l, "tenant=acme/day", 30, 0)
	f.rounds = 5
	f.answer(f.ask(70), 1)
	wants(t, l, "tenant=acme/day", 31, 0)
	if got := rules.ChargeOf(f.s, "tenant=acme/day"); got.CostMicro != 1 {
		t.Errorf("the fork has %+v", got)
	}
}

// TestAbsurdFigures: no reported figure makes a sum overflow.
func TestAbsurdFigures(t *testing.T) {
	t.Parallel()
	l := New(tableOf(t, Account{Label: "tenant", Window: Day, MaxTokens: 100}), nil)
	for i := range 3 {
		r := newRun(t, l, fmt.Sprint(i), acme)
		r.do(machine.CompleteTurn{TurnSeq: r.s.Turn.Seq, Attempt: 1, Usage: machine.Usage{InputTokens: 1 << 62, CostMicro: 1 << 62}})
	}
	wants(t, l, "tenant=acme/day", 3*machine.MaxCharge, 0)
	if r := newRun(t, l, "R", acme); r.ask(1) != 0 {
		t.Error("it is over its limit")
	}
}

// TestListAndFigures: accounts by name, page after page, and as many series as entries.
func TestListAndFigures(t *testing.T) {
	t.Parallel()
	l := New(tableOf(t,
		Account{Label: "tenant", Window: Day, MaxCostMicro: 100}, Account{Label: "tenant", Value: "vip", Window: Day, MaxCostMicro: 900},
		Account{Window: Month, MaxTokens: 1000, Zone: "Europe/Berlin"}), nil)
	for _, tenant := range []string{"x", "y", "vip"} {
		r := newRun(t, l, tenant, machine.Label{Key: "tenant", Value: tenant})
		r.answer(r.ask(50), 30)
		r.ask(20)
		r.ask(200)
	}
	var names []string
	after := ""
	for more := true; more; {
		var page []View
		page, more = l.List(0, "", after, 2, noon)
		for _, v := range page {
			names, after = append(names, v.Name), v.Name
		}
	}
	if got := strings.Join(names, " "); got != "/month@Europe/Berlin tenant=vip/day tenant=x/day tenant=y/day" {
		t.Errorf("listed %s", got)
	}
	page, more := l.List(0, "tenant=x", "", 2, noon)
	want := View{
		Name: "tenant=x/day", Begin: noon.Add(-12 * time.Hour).UnixNano(), End: noon.Add(12 * time.Hour).UnixNano(),
		Settled: machine.Amount{Tokens: 30, CostMicro: 30}, Limit: machine.Amount{CostMicro: 100}, Refused: 1,
	}
	if len(page) != 1 || more || page[0] != want {
		t.Errorf("%+v, %v, want %+v", page, more, want)
	}
	if tomorrow, _ := l.List(0, "tenant=x", "", 1, noon.Add(24*time.Hour)); tomorrow[0].Settled.Tokens != 0 {
		t.Errorf("tomorrow %+v", tomorrow)
	}
	if elsewhere, _ := l.List(7, "", "", 9, noon); len(elsewhere) != 2 {
		t.Errorf("another namespace has %+v", elsewhere)
	}
	got := l.Figures(noon)
	for i, want := range []Figure{
		{Name: "tenant=*/day", Accounts: 2, Refused: 2, Settled: machine.Amount{Tokens: 60, CostMicro: 60}, Limit: machine.Amount{CostMicro: 100}},
		{Name: "tenant=vip/day", Accounts: 1, Settled: machine.Amount{Tokens: 30, CostMicro: 30}, Held: machine.Amount{Tokens: 220, CostMicro: 220}, Limit: machine.Amount{CostMicro: 900}},
	} {
		if got[i] != want {
			t.Errorf("%+v, want %+v", got[i], want)
		}
	}
	if none, more := (*Ledger)(nil).List(0, "", "", 9, noon); len(none) != 0 || more || (*Ledger)(nil).Figures(noon) != nil {
		t.Error("no ledger has accounts")
	}
}

// TestNoLedger: without accounts a step is the machine's, and nothing is held.
func TestNoLedger(t *testing.T) {
	t.Parallel()
	r := newRun(t, nil, "A", acme)
	if r.ask(1<<40) == 0 {
		t.Error("a call is refused where there are no accounts")
	}
	result, hold, err := r.l.Decide(r.g, r.s, machine.Input{At: noon.UnixNano(), Command: machine.CompleteTurn{TurnSeq: 99, Attempt: 1}, Semantics: machine.Current})
	if err == nil || hold.ledger != nil || result.Batch != nil {
		t.Errorf("an input for no turn: %+v, %v", result.Batch, err)
	}
}

// TestRefusedInputHoldsNothing: the ledger changes nothing for an input that the machine refuses.
func TestRefusedInputHoldsNothing(t *testing.T) {
	t.Parallel()
	l := New(tableOf(t, Account{Label: "tenant", Window: Day, MaxCostMicro: 100}), nil)
	r := newRun(t, l, "A", acme)
	ask := r.asked(60)
	ask.TurnSeq += 7
	if _, err := r.take(ask, true); err == nil {
		t.Error("a call of a turn that there is not is taken")
	}
	wants(t, l, "tenant=acme/day", 0, 0)
}

// TestRefusalsAreCountedOnce: an input that an account cannot cover may be decided several times before it is stored. It
// is one refusal.
func TestRefusalsAreCountedOnce(t *testing.T) {
	t.Parallel()
	l := New(tableOf(t, Account{Label: "tenant", Window: Day, MaxCostMicro: 100}), nil)
	r := newRun(t, l, "A", acme)
	r.rounds++
	for _, stored := range []bool{false, false, true} {
		if result, err := r.take(r.asked(200), stored); err != nil || result.Steps[0].Denial == nil {
			t.Fatalf("%+v, %v", result.Steps, err)
		}
	}
	views, _ := l.List(0, "", "", 10, noon)
	if len(views) != 1 || views[0].Refused != 1 {
		t.Errorf("accounts %+v", views)
	}
}

// TestNamed: an account's name leads to the entry of its own label, window and zone.
func TestNamed(t *testing.T) {
	t.Parallel()
	table := tableOf(t,
		Account{Label: "team", Window: Day, MaxTokens: 1}, Account{Label: "tenant", Window: Day, MaxTokens: 2},
		Account{Label: "tenant", Window: Day, Zone: "Europe/Berlin", MaxTokens: 3}, Account{Window: Day, MaxTokens: 4})
	for name, want := range map[string]int64{
		"team=red/day": 1, "tenant=acme/day": 2, "tenant=acme/day@Europe/Berlin": 3, "/day": 4, "tenant=acme/month": 0, "other=x/day": 0,
	} {
		var got int64
		if _, entry := table.findAccount(name); entry != nil {
			got = entry.MaxTokens
		}
		if got != want {
			t.Errorf("%s leads to the entry with %d tokens, want %d", name, got, want)
		}
	}
}
