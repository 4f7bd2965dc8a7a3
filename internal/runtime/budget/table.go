package budget

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// EachValue is the value of a table entry that makes a separate account for each value of its label.
const EachValue = "*"

// MaxAccounts bounds the entries of a table of accounts.
const MaxAccounts = 1000

// maxName bounds the labels and values in a table of accounts, in bytes.
const maxName = 256

// Account is one entry of the operator's table of accounts.
type Account struct {
	// Label is the key of the label by which runs are counted. If it is "", the account counts every run of a
	// namespace, and Value is "".
	Label string
	// Value is the value that the label of a counted run has. If it is [EachValue], each value is a separate account.
	Value  string
	Window Window
	// Zone is the time zone in which the window's days begin. "" means UTC.
	Zone string
	// MaxTokens and MaxCostMicro are the limits of the account in one window. 0 means that there is no limit.
	MaxTokens, MaxCostMicro int64
}

// slot is a group of table entries that have the same label key, window and time zone, and differ only in the label
// value. A run is counted by the entry with the run's
// own value of the label or, if there is none, by the entry with [EachValue].
type slot struct {
	label  string
	window Window
	zone   string
	at     *time.Location
	values map[string]*Account
}

// Table is the set of accounts. It is immutable.
type Table struct {
	accounts []Account
	slots    []*slot
}

// NewTable checks the entries and returns a Table. The error contains all faults of the entries.
func NewTable(accounts []Account) (*Table, error) {
	t := &Table{accounts: slices.Clone(accounts)}
	var faults Faults
	if len(accounts) > MaxAccounts {
		faults = append(faults, Fault{Field: "accounts", Message: fmt.Sprintf("has %d entries, at most %d", len(accounts), MaxAccounts)})
	}
	for i := range t.accounts {
		a := &t.accounts[i]
		fault := func(field, format string, args ...any) {
			faults = append(faults, Fault{Field: fmt.Sprintf("accounts[%d].%s", i, field), Message: fmt.Sprintf(format, args...)})
		}
		zone := a.check(fault)
		if zone == nil {
			continue
		}
		s := t.slot(a, zone)
		if s.values[a.Value] != nil {
			fault("value", "there is an account %s already", s.name(a.Value))
			continue
		}
		s.values[a.Value] = a
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return t, nil
}

// Fault is an error in one field of the operator's table of accounts. Faults is an error with all of them.
type (
	Fault  struct{ Field, Message string }
	Faults []Fault
)

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Field + ": " + f[i].Message
	}
	return strings.Join(lines, "\n")
}

// check reports the faults of one table entry. An entry with a label and without a value gets the value [EachValue]. check returns the
// time zone of the entry, or nil if the name of the zone is invalid.
func (a *Account) check(fault func(field, format string, args ...any)) *time.Location {
	if len(a.Label) > maxName || strings.Contains(a.Label, "=") {
		fault("label", "want the key of a label, at most %d bytes without \"=\"", maxName)
	}
	switch {
	case a.Label == "" && a.Value != "":
		fault("value", "is %q, and there is no label", a.Value)
	case a.Label != "" && a.Value == "":
		a.Value = EachValue
	case len(a.Value) > maxName:
		fault("value", "has %d bytes, at most %d", len(a.Value), maxName)
	}
	if !slices.Contains(windows, a.Window) {
		fault("window", "is %q, allowed: day, month, ever", a.Window)
	}
	for _, limit := range []struct {
		field string
		n     int64
	}{{"max_tokens", a.MaxTokens}, {"max_cost_usd", a.MaxCostMicro}} {
		if limit.n < 0 || limit.n > machine.MaxCharge {
			fault(limit.field, "must be 0 (no limit) to %d", int64(machine.MaxCharge))
		}
	}
	if a.MaxTokens == 0 && a.MaxCostMicro == 0 {
		fault("max_cost_usd", "an account has a limit: max_cost_usd, max_tokens or both")
	}
	zone, err := zoneOf(a.Zone)
	if err != nil {
		fault("time_zone", "%v", err)
	}
	return zone
}

func (t *Table) slot(a *Account, zone *time.Location) *slot {
	for _, s := range t.slots {
		if s.label == a.Label && s.window == a.Window && s.at.String() == zone.String() {
			return s
		}
	}
	s := &slot{label: a.Label, window: a.Window, at: zone, values: map[string]*Account{}}
	if name := zone.String(); name != "UTC" {
		s.zone = name
	}
	t.slots = append(t.slots, s)
	return s
}

// name returns the name of an account of the slot, for example "tenant=acme/day@Europe/Berlin". The name of an account
// that counts all runs begins with "/", for example "/month".
func (s *slot) name(value string) string {
	name := "/" + string(s.window)
	if s.label != "" {
		name = s.label + "=" + value + name
	}
	if s.zone != "" {
		name += "@" + s.zone
	}
	return name
}

// countedAccount is an operator's account that counts a certain run, with the account's window at a certain time.
type countedAccount struct {
	name string
	// entry is the table entry of the account. It is nil if the table no longer contains the account.
	entry  *Account
	window int64
}

// accountsFor returns the operator's accounts (budgets over many runs) that count a run with these labels at the given time.
func (t *Table) accountsFor(labels []machine.Label, at int64) []countedAccount {
	var hits []countedAccount
	for _, s := range t.slots {
		if value, ok := valueOf(labels, s.label); ok {
			if entry := s.entry(value); entry != nil {
				hits = append(hits, countedAccount{name: s.name(value), entry: entry, window: s.begin(at)})
			}
		}
	}
	return hits
}

// valueOf returns the value of the label with the key, and whether the run has the label. For the key "" it returns ""
// and true, because an account without a label counts every run.
func valueOf(labels []machine.Label, key string) (string, bool) {
	for _, l := range labels {
		if l.Key == key && key != "" {
			return l.Value, true
		}
	}
	return "", key == ""
}

func (s *slot) entry(value string) *Account {
	if a := s.values[value]; a != nil && (value != EachValue || s.label == "") {
		return a
	}
	return s.values[EachValue]
}

// begin returns the beginning of the window at the given time, in Unix nanoseconds. It returns 0 if the window has no
// beginning.
func (s *slot) begin(at int64) int64 {
	begin := s.window.Begin(time.Unix(0, at), s.at)
	if begin.IsZero() {
		return 0
	}
	return begin.UnixNano()
}

// limits returns the largest sums of reserved and consumed amounts that the account allows. Without a limit it returns
// the largest int64.
func (h *countedAccount) limits() (tokens, cost int64) {
	tokens, cost = math.MaxInt64, math.MaxInt64
	if h.entry != nil && h.entry.MaxTokens > 0 {
		tokens = h.entry.MaxTokens
	}
	if h.entry != nil && h.entry.MaxCostMicro > 0 {
		cost = h.entry.MaxCostMicro
	}
	return tokens, cost
}
