package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// CallLimits are the contents of [Config.CallLimits].
type CallLimits struct {
	// Tenant is the key of the label that names a run's tenant, for example one of the operator's customers. Weights
	// of a limit are by tenant.
	Tenant string      `yaml:"tenant"`
	List   []CallLimit `yaml:"limits"`
}

// CallLimit is one entry of the file of call limits: a group of calls that are counted together, and their limits. 0
// = no limit.
type CallLimit struct {
	ID string `yaml:"id"`
	// Key is a CEL expression; calls with the same result form one group. The rate limiter compiles it. At is the
	// position of the expression in the file.
	Key             string `yaml:"key"`
	At              string `yaml:"-"`
	Concurrent      int64  `yaml:"concurrent"`
	PerMinute       int64  `yaml:"per_minute"`
	TokensPerMinute int64  `yaml:"tokens_per_minute"`
	// Weights are by tenant.
	Weights map[string]int64 `yaml:"weights"`
	// Provider reports whether this entry's limits follow the rate limits that model providers report.
	Provider bool `yaml:"provider"`
}

const (
	maxLimits    = 256
	maxLimit     = 1_000_000_000
	maxWeight    = 1000
	tenantsLabel = "tenant"
)

var limitID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// ReadCallLimits reads the file of [Config.CallLimits], YAML or JSON. It does not compile the key expressions. Errors:
// an [*Error] with all faults of the content.
func ReadCallLimits(path string) (CallLimits, error) {
	limits := CallLimits{Tenant: tenantsLabel}
	d, err := readDocument("limits file", path, &limits)
	if err != nil {
		return CallLimits{}, err
	}
	if limits.Tenant == "" {
		d.wrong("tenant", "want the name of a label")
	}
	if len(limits.List) > maxLimits {
		d.wrong("limits", "has %d entries, at most %d", len(limits.List), maxLimits)
	}
	for i := range limits.List {
		e, at := &limits.List[i], fmt.Sprintf("limits[%d]", i)
		e.At = d.where(at + ".key")
		d.limit(e, at)
		if i > 0 && slices.ContainsFunc(limits.List[:i], func(other CallLimit) bool { return other.ID == e.ID }) {
			d.wrong(at+".id", "%q is the id of another entry too", e.ID)
		}
	}
	if err := d.err(); err != nil {
		return CallLimits{}, err
	}
	return limits, nil
}

// limit checks one entry.
func (d *document) limit(e *CallLimit, at string) {
	d.required(at, "id", "key")
	if d.has(at+".id") && !limitID.MatchString(e.ID) {
		d.wrong(at+".id", "want 1 to 64 of a-z, 0-9 and . _ -, beginning with a letter or a digit")
	}
	if d.has(at+".key") && e.Key == "" {
		d.wrong(at+".key", "want an expression that gives a text")
	}
	bounds := false
	for _, b := range []struct {
		field string
		n     int64
	}{{"concurrent", e.Concurrent}, {"per_minute", e.PerMinute}, {"tokens_per_minute", e.TokensPerMinute}} {
		if d.has(at + "." + b.field) {
			bounds = true
			d.between(at+"."+b.field, b.n, 1, maxLimit)
		}
	}
	if !bounds {
		d.wrong(at, "limits nothing: at least one of concurrent, per_minute, tokens_per_minute is required")
	}
	for _, tenant := range slices.Sorted(maps.Keys(e.Weights)) {
		d.between(at+".weights."+source.Clip(tenant, 80), e.Weights[tenant], 1, maxWeight)
	}
}

// placed collects the faults of a file and adds the file's path, line and column to each of them.
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
	l.at(m.Line, m.Col, field, "%s", unknownKey(m.Name, allowed))
}
