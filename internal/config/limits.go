package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// CallLimits are the contents of [Config.CallLimits].
type CallLimits struct {
	// Tenant is the label whose value is a run's tenant.
	Tenant string
	List   []CallLimit
}

// CallLimit is one entry: what is counted together, and how much of it there may be. 0 = no bound.
type CallLimit struct {
	ID string
	// Key is an expression, which whoever counts compiles; At is where it begins.
	Key, At                                string
	Concurrent, PerMinute, TokensPerMinute int64
	// Weights by tenant.
	Weights map[string]int64
	// Provider: what providers tell of their own limits moves these.
	Provider bool
}

const (
	maxLimits    = 256
	maxLimit     = 1_000_000_000
	maxWeight    = 1000
	tenantsLabel = "tenant"
)

var (
	limitsFields = []string{"limits", "tenant"}
	limitFields  = []string{"concurrent", "id", "key", "per_minute", "provider", "tokens_per_minute", "weights"}
	limitID      = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
)

// ReadCallLimits reads the file of [Config.CallLimits], YAML or JSON. Faults of the content are an
// [*Error] with all of them; keys are not compiled.
func ReadCallLimits(path string) (CallLimits, error) {
	raw, err := readTable("limits file", path)
	if err != nil {
		return CallLimits{}, err
	}
	l := &limitList{placed{path: path}}
	root, f := source.Read(raw, fileLimits, func(twice source.Twice) {
		l.at(twice.Line, twice.Col, strings.Join(twice.Path, "."), "is given twice")
	})
	if f != nil {
		return CallLimits{}, &Error{Faults: []Fault{{Field: path, Message: f.Error()}}}
	}
	limits := l.root(root)
	if len(l.list) > 0 {
		return CallLimits{}, &Error{Faults: l.list}
	}
	return limits, nil
}

// limitList collects the faults of one file.
type limitList struct{ placed }

func (l *limitList) root(root *source.Node) CallLimits {
	limits := CallLimits{Tenant: tenantsLabel}
	if root.Kind != source.Object {
		l.at(root.Line, root.Col, "", "want an object of %s", strings.Join(limitsFields, ", "))
		return limits
	}
	for i := range root.Members {
		switch m := &root.Members[i]; m.Name {
		case "tenant":
			if limits.Tenant = m.Value.Text; m.Value.Kind != source.String || limits.Tenant == "" {
				l.at(m.Line, m.Col, m.Name, "want the name of a label")
			}
		case "limits":
			limits.List = l.entries(m)
		default:
			l.unknown(m, source.Clip(m.Name, 80), limitsFields)
		}
	}
	return limits
}

func (l *limitList) entries(m *source.Member) (list []CallLimit) {
	if m.Value.Kind != source.Array || len(m.Value.Items) > maxLimits {
		l.at(m.Line, m.Col, m.Name, "want a list of at most %d entries", maxLimits)
		return nil
	}
	for i, item := range m.Value.Items {
		at := fmt.Sprintf("limits[%d]", i)
		entry := l.entry(item, at)
		if slices.ContainsFunc(list, func(other CallLimit) bool { return other.ID == entry.ID }) {
			l.at(item.Line, item.Col, at+".id", "%q is the id of another entry too", entry.ID)
		}
		list = append(list, entry)
	}
	return list
}

// entry reads one entry.
func (l *limitList) entry(item *source.Node, at string) (e CallLimit) {
	if item.Kind != source.Object {
		l.at(item.Line, item.Col, at, "want an object of %s", strings.Join(limitFields, ", "))
		return e
	}
	for i := range item.Members {
		m := &item.Members[i]
		switch field := at + "." + source.Clip(m.Name, 80); m.Name {
		case "id":
			if e.ID = m.Value.Text; m.Value.Kind != source.String || !limitID.MatchString(e.ID) {
				l.at(m.Line, m.Col, field, "want 1 to 64 of a-z, 0-9 and . _ -, beginning with a letter or a digit")
			}
		case "key":
			if e.Key, e.At = m.Value.Text, l.place(m.Value.Line, m.Value.Col, field); m.Value.Kind != source.String || e.Key == "" {
				l.at(m.Line, m.Col, field, "want an expression that gives a text")
			}
		case "concurrent":
			e.Concurrent = l.count(m, field, maxLimit)
		case "per_minute":
			e.PerMinute = l.count(m, field, maxLimit)
		case "tokens_per_minute":
			e.TokensPerMinute = l.count(m, field, maxLimit)
		case "weights":
			e.Weights = l.weights(m, field)
		case "provider":
			if e.Provider = m.Value.Flag; m.Value.Kind != source.Bool {
				l.at(m.Line, m.Col, field, "want true or false")
			}
		default:
			l.unknown(m, field, limitFields)
		}
	}
	l.complete(item, at, &e)
	return e
}

// complete refuses an entry that limits nothing.
func (l *limitList) complete(item *source.Node, at string, e *CallLimit) {
	for _, name := range []string{"id", "key"} {
		if item.Get(name) == nil {
			l.at(item.Line, item.Col, at+"."+name, "is required")
		}
	}
	if e.Concurrent+e.PerMinute+e.TokensPerMinute == 0 {
		l.at(item.Line, item.Col, at, "limits nothing: at least one of concurrent, per_minute, tokens_per_minute is required")
	}
}

func (l *limitList) weights(m *source.Member, field string) map[string]int64 {
	if m.Value.Kind != source.Object {
		l.at(m.Line, m.Col, field, "want an object of whole numbers from 1 to %d by tenant", maxWeight)
		return nil
	}
	weights := make(map[string]int64, len(m.Value.Members))
	for i := range m.Value.Members {
		w := &m.Value.Members[i]
		weights[w.Name] = l.count(w, field+"."+source.Clip(w.Name, 80), maxWeight)
	}
	return weights
}

// count reads a whole number from 1.
func (l *limitList) count(m *source.Member, field string, most int64) int64 {
	if v := m.Value; v.Kind == source.Number && v.Num >= 1 && v.Num <= float64(most) && v.Num == math.Trunc(v.Num) {
		return int64(v.Num)
	}
	l.at(m.Line, m.Col, field, "is %s, want a whole number from 1 to %d", shown(m.Value), most)
	return 0
}

// placed collects faults by their place in a file.
type placed struct {
	list
	path string
}

func (l *placed) place(line, col int, field string) string {
	return fmt.Sprintf("%s:%d:%d: %s", l.path, line, col, field)
}

func (l *placed) at(line, col int, field, format string, args ...any) {
	l.add(l.place(line, col, field), format, args...)
}

func (l *placed) unknown(m *source.Member, field string, allowed []string) {
	l.at(m.Line, m.Col, field, "is not known; allowed: %s", strings.Join(allowed, ", "))
}
