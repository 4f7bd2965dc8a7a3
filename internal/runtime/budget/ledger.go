package budget

import (
	"math"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// key identifies an account: its namespace and its name in the namespace.
type key struct {
	namespace uint32
	account   string
}

// Ledger contains the reserved and consumed amounts of the operator's accounts. Safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	table *Table
	rows  map[key]*machine.AccountRow
	// refusals counts, for each account, how often it could not cover an input that was stored, since the start of the process.
	refusals map[key]int64
}

// New returns a Ledger with a table of accounts and the amounts of the stored rows.
func New(table *Table, rows []machine.AccountRow) *Ledger {
	l := &Ledger{table: table, rows: make(map[key]*machine.AccountRow, len(rows)), refusals: map[key]int64{}}
	for i := range rows {
		l.rows[key{rows[i].Namespace, rows[i].Account}] = &rows[i]
	}
	return l
}

// Replace replaces the table of accounts. Existing reservations stay, even if they exceed a new limit.
func (l *Ledger) Replace(t *Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table = t
}

// Reservation is the change that an input makes in the ledger before its commit. The zero value changes nothing.
type Reservation struct {
	ledger    *Ledger
	namespace uint32
	changes   []machine.ChargeChange
	// short are the accounts that could not cover the input.
	short []key
}

// Close ends the reservation. stored reports whether the input was committed. If it was, Close counts the refusals.
// Otherwise it removes the change from the ledger.
func (h *Reservation) Close(stored bool) {
	l, changes, short := h.ledger, h.changes, h.short
	h.ledger, h.changes, h.short = nil, nil, nil
	if l == nil || stored && short == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if stored {
		for _, account := range short {
			l.refusals[account]++
		}
		return
	}
	for _, c := range changes {
		l.row(h.namespace, c.After.Account).Undo(c)
	}
}

// Decide applies [rules.Step] for a run that accounts may count. If the input changes amounts, Decide adds the accounts
// to the input and applies it a second time. If an account cannot cover the reservation, the input contains the amount
// that is left. The caller must close the returned reservation after the commit.
//
// Problem: many runs reserve from the same accounts concurrently, and the machine is pure and does not know the
// accounts.
//
// Invariants: the mutex is held from the check of the limits until the amounts are added, so two inputs cannot both use
// the last part of a limit. The amounts of an input are added to all of its accounts or to none.
func (l *Ledger) Decide(g *machine.Graph, s *machine.State, in machine.Input) (machine.Result, Reservation, error) {
	result, err := rules.Step(g, s, in)
	if l == nil || err != nil || result.Batch == nil {
		return result, Reservation{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hits := l.accountsOf(s, result.State)
	if len(hits) == 0 || !changesAmounts(s, result.State, in.Command) {
		return result, Reservation{}, nil
	}
	if startsModelCall(s, result.State, in.Command) {
		if err := checkPriced(g, hits, in.Command); err != nil {
			return machine.Result{State: s}, Reservation{}, err
		}
	}
	var short []key
	in.Billed, short = l.bills(hits, s, result.State, in.Command)
	if result, err = rules.Step(g, s, in); err != nil || result.Batch == nil {
		return result, Reservation{}, err
	}
	hold := Reservation{ledger: l, namespace: result.State.Namespace, changes: result.Batch.Charged, short: short}
	for _, c := range hold.changes {
		l.row(hold.namespace, c.After.Account).Add(c)
	}
	return result, hold, nil
}

// accountsOf returns the operator's accounts that count the run: those of its labels, and those that are no longer in the
// table but still contain reservations of the run. The run of an agent in this store is counted with the labels of the
// run that delegated to it.
func (l *Ledger) accountsOf(before, after *machine.State) []countedAccount {
	labels, counted := after.AccountLabels()
	if !counted {
		return nil
	}
	hits := l.table.accountsFor(labels, after.At)
	if before == nil {
		return hits
	}
	for _, c := range before.Charges {
		if (c.HeldTokens != 0 || c.HeldCostMicro != 0) && !hasAccount(hits, c.Account) {
			hits = append(hits, countedAccount{name: c.Account, window: c.Window})
		}
	}
	return hits
}

func hasAccount(hits []countedAccount, name string) bool {
	for i := range hits {
		if hits[i].name == name {
			return true
		}
	}
	return false
}

// changesAmounts reports whether the input changes the consumption or the reservations of the run, or starts a model call, whose
// cost may be unknown.
func changesAmounts(before, after *machine.State, c machine.Command) bool {
	return startsModelCall(before, after, c) || settledAmount(before) != settledAmount(after) || held(before) != held(after)
}

// startsModelCall reports whether the input starts a new attempt of a model call.
func startsModelCall(before, after *machine.State, c machine.Command) bool {
	_, ok := c.(machine.RequestModel)
	return ok && before != nil && open(before) < open(after)
}

// open returns the sum of the attempt numbers of all pending model calls. The sum increases when an attempt starts.
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

// checkPriced returns an error for a model call without a known price if an account of the run limits the cost.
func checkPriced(g *machine.Graph, hits []countedAccount, c machine.Command) error {
	ask, ok := c.(machine.RequestModel)
	if !ok || ask.Bound.CostMicro > 0 || rules.PriceOf(g, &ask.Bound) != nil {
		return nil
	}
	for i := range hits {
		if hits[i].entry != nil && hits[i].entry.MaxCostMicro > 0 {
			return rules.UnpricedError(ask.Model.Model, "request.model")
		}
	}
	return nil
}

// bills returns the operator's accounts in which the input is counted. It marks each account that cannot cover the
// input, and returns the keys of the marked accounts that are in the operator's table.
func (l *Ledger) bills(hits []countedAccount, before, after *machine.State, c machine.Command) (bills []machine.Bill, short []key) {
	var least int64
	if startsModelCall(before, after, c) {
		least = 1 // the request needs more than 0, even if its bound is unknown
	}
	bills = make([]machine.Bill, len(hits))
	for i := range hits {
		h := &hits[i]
		bills[i] = machine.Bill{Account: h.name, Window: h.window}
		row := l.row(after.Namespace, h.name)
		row.Turn(h.window)
		old := rules.ChargeOf(before, h.name)
		trial := *row
		trial.Add(machine.ChargeChange{Before: old, After: rules.UpdatedCharge(old, h.window, before, after)})
		maxTokens, maxCost := h.limits()
		tokens, cost := sum(row.Tokens, row.HeldTokens), sum(row.CostMicro, row.HeldCostMicro)
		needTokens := max(least, sum(trial.Tokens, trial.HeldTokens)-tokens)
		needCost := max(least, sum(trial.CostMicro, trial.HeldCostMicro)-cost)
		if isWithin(needTokens, tokens, maxTokens) && isWithin(needCost, cost, maxCost) {
			continue
		}
		// When a run uses an account for the first time, the commit also adds the run's earlier reservations to the
		// account. So the check counts these amounts, too.
		tokens, cost = sum(tokens, held(before).Tokens-old.HeldTokens), sum(cost, held(before).CostMicro-old.HeldCostMicro)
		bills[i].Short, bills[i].LeftTokens, bills[i].LeftCostMicro = true, remaining(maxTokens, tokens), remaining(maxCost, cost)
		if h.entry != nil {
			short = append(short, key{after.Namespace, h.name})
		}
	}
	return bills, short
}

// isWithin reports whether have plus need is within the limit. If need is zero or negative, the result is true even if
// have exceeds the limit, because the change consumes nothing.
func isWithin(need, have, limit int64) bool {
	return limit == math.MaxInt64 || need <= 0 || need <= limit-have
}

func remaining(limit, have int64) int64 {
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
