package budget

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// View is the present state of one account, for lists.
type View struct {
	Name string
	// Begin and End are the beginning and the end of the current window, in Unix nanoseconds. 0 means
	// that the window has none.
	Begin, End int64
	// Settled is what was consumed in the window. Held is the sum of the present reservations.
	Settled, Held machine.Amount
	// Limit contains the limits of the account. A limit of 0 means that there is none.
	Limit machine.Amount
	// Refused is how often the account could not cover an input that was stored, since the start of the process.
	Refused int64
}

// List returns accounts of a namespace, ordered by name. It returns at most `most` accounts with a name that has the prefix and is greater
// than `after`. It lists the accounts that have counted runs, and those of the table that have an explicit value or no label. more reports
// whether further accounts follow.
func (l *Ledger) List(namespace uint32, prefix, after string, most int, now time.Time) (views []View, more bool) {
	if l == nil {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.names(namespace) {
		if name <= after || !strings.HasPrefix(name, prefix) {
			continue
		}
		if len(views) == most {
			return views, true
		}
		views = append(views, l.view(namespace, name, now))
	}
	return views, false
}

// names returns the names of a namespace's accounts, sorted. The caller holds the mutex.
func (l *Ledger) names(namespace uint32) []string {
	var names []string
	for k := range l.rows {
		if k.namespace == namespace {
			names = append(names, k.account)
		}
	}
	for _, s := range l.table.slots {
		for value := range s.values {
			if value != EachValue || s.label == "" {
				names = append(names, s.name(value))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// view returns the current amounts of an account. The caller holds the mutex.
func (l *Ledger) view(namespace uint32, name string, now time.Time) View {
	var row machine.AccountRow
	if known := l.rows[key{namespace, name}]; known != nil {
		row = *known
	}
	v := View{Name: name, Begin: row.Window, Refused: l.refusals[key{namespace, name}]}
	if s, entry := l.table.findAccount(name); entry != nil {
		row.Turn(s.begin(now.UnixNano()))
		v.Begin, v.Limit = row.Window, machine.Amount{Tokens: entry.MaxTokens, CostMicro: entry.MaxCostMicro}
		if end := s.window.End(time.Unix(0, max(row.Window, now.UnixNano())), s.at); !end.IsZero() {
			v.End = end.UnixNano()
		}
	}
	v.Settled = machine.Amount{Tokens: row.Tokens, CostMicro: row.CostMicro}
	v.Held = machine.Amount{Tokens: row.HeldTokens, CostMicro: row.HeldCostMicro}
	return v
}

// findAccount returns the table entry of the account with this name, and the slot (group of entries) of the
// entry. It returns nil if the table does not contain the account.
func (t *Table) findAccount(name string) (*slot, *Account) {
	for _, s := range t.slots {
		value, ok := s.valueIn(name)
		if entry := s.entry(value); ok && entry != nil {
			return s, entry
		}
	}
	return nil, nil
}

// valueIn returns the label value that is part of the name of an account of this slot. It is the
// inverse of the method name.
func (s *slot) valueIn(name string) (string, bool) {
	empty := s.name("")
	if s.label == "" {
		return "", name == empty
	}
	label := s.label + "="
	value, ok := strings.CutPrefix(name, label)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(value, empty[len(label):])
}

// Figure is the sum over all accounts of one entry of the table, for metrics.
type Figure struct {
	// Name is the common name of the accounts of the entry, with the value "*" if the entry has the value
	// [EachValue].
	Name string
	// Accounts is the number of accounts of the entry that have counted runs.
	Accounts             int64
	Settled, Held, Limit machine.Amount
	// Refused is how often an account of the entry could not cover an input that was stored, since the start of the process.
	Refused int64
}

// Figures returns one Figure for each entry of the table, in the order of the table.
func (l *Ledger) Figures(now time.Time) []Figure {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	figures := make([]Figure, len(l.table.accounts))
	places := make(map[*Account]*Figure, len(figures))
	for i := range l.table.accounts {
		a := &l.table.accounts[i]
		figures[i] = Figure{Limit: machine.Amount{Tokens: a.MaxTokens, CostMicro: a.MaxCostMicro}}
		places[a] = &figures[i]
	}
	for _, s := range l.table.slots {
		for value, a := range s.values {
			places[a].Name = s.name(value)
		}
	}
	for k := range l.rows {
		_, entry := l.table.findAccount(k.account)
		if entry == nil {
			continue
		}
		f, v := places[entry], l.view(k.namespace, k.account, now)
		f.Accounts++
		f.Refused += v.Refused
		f.Settled.Tokens, f.Settled.CostMicro = sum(f.Settled.Tokens, v.Settled.Tokens), sum(f.Settled.CostMicro, v.Settled.CostMicro)
		f.Held.Tokens, f.Held.CostMicro = sum(f.Held.Tokens, v.Held.Tokens), sum(f.Held.CostMicro, v.Held.CostMicro)
	}
	return figures
}
