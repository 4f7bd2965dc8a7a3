package budget

import (
	"math"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// key identifies an account of a namespace.
type key struct {
	namespace uint32
	account   string
}

// Ledger holds the reserved and settled amounts of each account. Safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	table *Table
	rows  map[key]*machine.AccountRow
	// refused counts the inputs that were refused because they would have exceeded the limit of the
	// account. The count starts at zero when the process starts.
	refused map[key]int64
}

// New returns a Ledger with the amounts of the stored rows.
func New(table *Table, rows []machine.AccountRow) *Ledger {
	l := &Ledger{table: table, rows: make(map[key]*machine.AccountRow, len(rows)), refused: map[key]int64{}}
	for i := range rows {
		l.rows[key{rows[i].Namespace, rows[i].Account}] = &rows[i]
	}
	return l
}

// Replace applies a new table of accounts. Existing reservations stay, even if they exceed a new limit.
func (l *Ledger) Replace(t *Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table = t
}

// Reservation is the change that an uncommitted input makes in the ledger. The zero value changes
// nothing.
type Reservation struct {
	ledger    *Ledger
	namespace uint32
	changes   []machine.ChargeChange
}

// Close ends the reservation. stored reports whether the input was committed. If it was not, Close
// reverts the change in the ledger.
func (h *Reservation) Close(stored bool) {
	l, changes := h.ledger, h.changes
	h.ledger, h.changes = nil, nil
	if l == nil || stored {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		l.row(h.namespace, c.After.Account).Undo(c)
	}
}

// Decide applies [rules.Step] for a run with accounts. If the input changes amounts, Decide stamps the
// accounts into the input and applies it again. If an account cannot cover the reservation, the stamp
// contains the amount that is left. The caller must close the returned reservation after the commit.
//
// Problem: many runs reserve from the same accounts concurrently, and the machine is pure and does not
// know the accounts.
//
// Invariants: the mutex is held from the check of the limits until the amounts are added, so two inputs
// cannot both use the last part of a limit. The amounts of an input are added to all of its accounts or
// to none.
func (l *Ledger) Decide(g *machine.Graph, s *machine.State, in machine.Input) (machine.Result, Reservation, error) {
	result, err := rules.Step(g, s, in)
	if l == nil || err != nil || result.Batch == nil {
		return result, Reservation{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hits := l.hits(s, result.State)
	if len(hits) == 0 || !moves(s, result.State, in.Command) {
		return result, Reservation{}, nil
	}
	if asks(s, result.State, in.Command) {
		if err := priced(g, hits, in.Command); err != nil {
			return machine.Result{State: s}, Reservation{}, err
		}
	}
	in.Billed = l.bills(hits, s, result.State, in.Command)
	if result, err = rules.Step(g, s, in); err != nil || result.Batch == nil {
		return result, Reservation{}, err
	}
	hold := Reservation{ledger: l, namespace: result.State.Namespace, changes: result.Batch.Charged}
	for _, c := range hold.changes {
		l.row(hold.namespace, c.After.Account).Add(c)
	}
	return result, hold, nil
}

// hits returns the accounts that count the run: the accounts of its labels, and accounts that are no longer in the table but still hold
// reservations of the run. The run of an agent has the labels of the run that delegated to it.
func (l *Ledger) hits(before, after *machine.State) []hit {
	labels, counted := after.Accountable()
	if !counted {
		return nil
	}
	hits := l.table.of(labels, after.At)
	if before == nil {
		return hits
	}
	for _, c := range before.Charges {
		if (c.HeldTokens != 0 || c.HeldCostMicro != 0) && !named(hits, c.Account) {
			hits = append(hits, hit{name: c.Account, window: c.Window})
		}
	}
	return hits
}

func named(hits []hit, name string) bool {
	for i := range hits {
		if hits[i].name == name {
			return true
		}
	}
	return false
}

// moves reports whether the input changes amounts of accounts: whether it reserves, settles or releases an amount, or requests a model
// call, whose cost may be unknown.
func moves(before, after *machine.State, c machine.Command) bool {
	return asks(before, after, c) || settledAmount(before) != settledAmount(after) || held(before) != held(after)
}

// asks reports whether the input starts a new attempt of a model call.
func asks(before, after *machine.State, c machine.Command) bool {
	_, ok := c.(machine.RequestModel)
	return ok && before != nil && open(before) < open(after)
}

// open counts the attempts of all pending model calls.
func open(s *machine.State) (n int) {
	for i := range s.Steps {
		if p := &s.Steps[i]; p.Model != nil && p.Status == machine.StepStatusPending {
			n += p.Attempt
		}
	}
	return n
}

func settledAmount(s *machine.State) machine.Amount {
	tokens, cost := rules.SettledInAccounts(s)
	return machine.Amount{Tokens: tokens, CostMicro: cost}
}

func held(s *machine.State) machine.Amount {
	tokens, cost := rules.ReservedInAccounts(s)
	return machine.Amount{Tokens: tokens, CostMicro: cost}
}

// priced returns an error for a model call without a known price if an account limits the cost.
func priced(g *machine.Graph, hits []hit, c machine.Command) error {
	ask, ok := c.(machine.RequestModel)
	if !ok || ask.Bound.CostMicro > 0 || rules.PriceOf(g, &ask.Bound) != nil {
		return nil
	}
	for i := range hits {
		if hits[i].entry != nil && hits[i].entry.MaxCostMicro > 0 {
			return rules.Unpriced(ask.Model.Model, "request.model")
		}
	}
	return nil
}

// bills returns the accounts to stamp into the input. It marks each account that cannot cover the input.
func (l *Ledger) bills(hits []hit, before, after *machine.State, c machine.Command) []machine.Bill {
	var least int64
	if asks(before, after, c) {
		least = 1 // the request needs more than zero
	}
	bills := make([]machine.Bill, len(hits))
	for i := range hits {
		h := &hits[i]
		bills[i] = machine.Bill{Account: h.name, Window: h.window}
		row := l.row(after.Namespace, h.name)
		row.Turn(h.window)
		was := rules.ChargeOf(before, h.name)
		trial := *row
		trial.Add(machine.ChargeChange{Before: was, After: rules.Charged(was, h.window, before, after)})
		maxTokens, maxCost := h.limits()
		tokens, cost := sum(row.Tokens, row.HeldTokens), sum(row.CostMicro, row.HeldCostMicro)
		needTokens := max(least, sum(trial.Tokens, trial.HeldTokens)-tokens)
		needCost := max(least, sum(trial.CostMicro, trial.HeldCostMicro)-cost)
		if fits(needTokens, tokens, maxTokens) && fits(needCost, cost, maxCost) {
			continue
		}
		// Count also the amounts that the run has reserved in other accounts but not yet in this one.
		tokens, cost = sum(tokens, held(before).Tokens-was.HeldTokens), sum(cost, held(before).CostMicro-was.HeldCostMicro)
		bills[i].Short, bills[i].LeftTokens, bills[i].LeftCostMicro = true, left(maxTokens, tokens), left(maxCost, cost)
		if h.entry != nil {
			l.refused[key{after.Namespace, h.name}]++
		}
	}
	return bills
}

// fits reports whether have plus need is within the limit. If need is zero or negative, the result is
// always true.
func fits(need, have, limit int64) bool {
	return limit == math.MaxInt64 || need <= 0 || need <= limit-have
}

func left(limit, have int64) int64 {
	if limit == math.MaxInt64 {
		return limit
	}
	return limit - have
}

// sum adds two amounts. If the sum overflows, it returns the largest int64.
func sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// row returns the row of an account and creates it if needed. The caller holds the mutex.
func (l *Ledger) row(namespace uint32, account string) *machine.AccountRow {
	k := key{namespace, account}
	if l.rows[k] == nil {
		l.rows[k] = &machine.AccountRow{Namespace: namespace, Account: account}
	}
	return l.rows[k]
}
