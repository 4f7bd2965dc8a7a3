package budget

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// View is the current state of one account.
type View struct {
	Name string
	// Begin and End are the bounds of the window, Unix nanoseconds; 0 = none.
	Begin, End int64
	// Settled is the settled usage in the window. Held is the sum of the reservations of active calls.
	Settled, Held machine.Amount
	// Limit is 0 if there is none.
	Limit machine.Amount
	// Refused is the number of inputs that were refused because they would have exceeded the limit. The
	// count starts at zero when the process starts.
	Refused int64
}

// List returns accounts of a namespace in the order of their names. It returns at most `most` accounts
// whose name has the prefix and is greater than `after`. The list contains the accounts that have
// counted runs, and the accounts with an explicit value in the table. more reports whether there are
// further accounts.
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

// names returns the names of a namespace's accounts, in order. The caller holds the mutex.
func (l *Ledger) names(namespace uint32) []string {
	var names []string
	for k := range l.rows {
		if k.namespace == namespace {
			names = append(names, k.account)
		}
	}
	for _, s := range l.table.slots {
		for value := range s.values {
			if value != Each || s.label == "" {
				names = append(names, s.name(value))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (l *Ledger) view(namespace uint32, name string, now time.Time) View {
	var row machine.AccountRow
	if known := l.rows[key{namespace, name}]; known != nil {
		row = *known
	}
	v := View{Name: name, Begin: row.Window, Refused: l.refused[key{namespace, name}]}
	if s, entry := l.table.named(name); entry != nil {
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

// named returns the table entry of the account with this name, and the slot of the entry. It returns
// nil if the table does not have the account.
func (t *Table) named(name string) (*slot, *Account) {
	for _, s := range t.slots {
		value, ok := s.valueIn(name)
		if entry := s.entry(value); ok && entry != nil {
			return s, entry
		}
	}
	return nil, nil
}

// valueIn returns the value in the name of an account of this slot. It is the inverse of name.
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

// Figure is the sum over all accounts of one entry of the table.
type Figure struct {
	// Name is the name of the account, with the value "*" for [Each].
	Name string
	// Accounts is the number of accounts with counted runs.
	Accounts             int64
	Settled, Held, Limit machine.Amount
	// Refused is the number of inputs that were refused because they would have exceeded a limit. The
	// count starts at zero when the process starts.
	Refused int64
}

// Figures returns one Figure for each entry of the table, in its order.
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
		_, entry := l.table.named(k.account)
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
