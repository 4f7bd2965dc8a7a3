package budget

import (
	"math"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// key names an account of a namespace.
type key struct {
	namespace uint32
	account   string
}

// Ledger has what is reserved and settled of each account. Safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	table *Table
	rows  map[key]*machine.AccountRow
	// refused counts the inputs that did not fit, since the start.
	refused map[key]int64
}

// New makes a ledger of the rows that a store has.
func New(table *Table, rows []machine.AccountRow) *Ledger {
	l := &Ledger{table: table, rows: make(map[key]*machine.AccountRow, len(rows)), refused: map[key]int64{}}
	for i := range rows {
		l.rows[key{rows[i].Namespace, rows[i].Account}] = &rows[i]
	}
	return l
}

// Replace puts another table in force. What is reserved stays so, also where it is more
// than is allowed now.
func (l *Ledger) Replace(t *Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table = t
}

// Reservation is what an input that is not committed yet has changed in the ledger; the zero
// value changed nothing.
type Reservation struct {
	ledger    *Ledger
	namespace uint32
	changes   []machine.ChargeChange
}

// Close says whether the input was stored; what was not is taken back. Nothing is held then.
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

// Decide is [rules.Step] for a run with accounts: an input that moves money is stamped with
// them and taken again, and where one does not hold what it would reserve, the machine is
// told how much it does. The hold ends with the commit.
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

// hits are the accounts that a run is counted in: those of its labels, and those in which
// it holds something that are in the table no more. The labels are its own, or those of the run
// in whose accounts it counts itself.
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

// moves: the input reserves, settles or releases, or asks a model, which may cost although
// nobody says how much.
func moves(before, after *machine.State, c machine.Command) bool {
	return asks(before, after, c) || settledAmount(before) != settledAmount(after) || held(before) != held(after)
}

// asks: a call of a model is asked for that was not under way.
func asks(before, after *machine.State, c machine.Command) bool {
	_, ok := c.(machine.RequestModel)
	return ok && before != nil && open(before) < open(after)
}

// open counts the attempts of pending calls of models.
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

// priced refuses a call of a model that nobody has a price of, where an account counts
// what calls cost.
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

// bills stamps the accounts; all of those that do not hold the input say so.
func (l *Ledger) bills(hits []hit, before, after *machine.State, c machine.Command) []machine.Bill {
	var least int64
	if asks(before, after, c) {
		least = 1 // what is asked for is more than nothing
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
		// What the run holds elsewhere and not here yet comes to this account, too.
		tokens, cost = sum(tokens, held(before).Tokens-was.HeldTokens), sum(cost, held(before).CostMicro-was.HeldCostMicro)
		bills[i].Short, bills[i].LeftTokens, bills[i].LeftCostMicro = true, left(maxTokens, tokens), left(maxCost, cost)
		if h.entry != nil {
			l.refused[key{after.Namespace, h.name}]++
		}
	}
	return bills
}

// fits: so much more, if it is more, is within the limit.
func fits(need, have, limit int64) bool {
	return limit == math.MaxInt64 || need <= 0 || need <= limit-have
}

func left(limit, have int64) int64 {
	if limit == math.MaxInt64 {
		return limit
	}
	return limit - have
}

// sum adds and stops at the largest number.
func sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// row is an account's, made where there is none; the mutex is held.
func (l *Ledger) row(namespace uint32, account string) *machine.AccountRow {
	k := key{namespace, account}
	if l.rows[k] == nil {
		l.rows[k] = &machine.AccountRow{Namespace: namespace, Account: account}
	}
	return l.rows[k]
}
