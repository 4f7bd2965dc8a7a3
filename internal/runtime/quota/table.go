package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Resource is what there is a bound of, by its name in the file of quotas.
type Resource string

// The resources. Principals have bounds of the first three alone.
const (
	Calls     Resource = "calls_per_second"
	Starts    Resource = "starts_per_minute"
	Streams   Resource = "streams"
	OpenRuns  Resource = "open_runs"
	Workers   Resource = "workers"
	Packs     Resource = "packs"
	Webhooks  Resource = "webhooks"
	Consumers Resource = "consumers"
)

var (
	ofPrincipal = []Resource{Calls, Starts, Streams}
	ofNamespace = append(slices.Clone(ofPrincipal), OpenRuns, Workers, Packs, Webhooks, Consumers)
)

// maxBound is the largest bound.
const maxBound = 1_000_000_000

// Bounds are those of one holder; 0 = none.
type Bounds map[Resource]int64

// Table says who may have how much. It does not change once it is in force.
type Table struct {
	// Namespace and Principal hold for those that are not named below, and for what is not
	// said of those that are.
	Namespace, Principal Bounds
	// Namespaces and Principals are by name.
	Namespaces, Principals map[string]Bounds
}

// Holder is who has something: a namespace or a principal.
type Holder struct {
	principal bool
	name      string
}

// Namespace is the holder of what is of one namespace.
func Namespace(name string) Holder { return Holder{name: name} }

// Principal is the holder of what one principal has, in all namespaces together.
func Principal(name string) Holder { return Holder{principal: true, name: name} }

func (h Holder) kind() string {
	if h.principal {
		return "principal"
	}
	return "namespace"
}

// of is a bound, 0 = none; said: the table has it.
func (t *Table) of(h Holder, r Resource) (most int64, said bool) {
	if t == nil {
		return 0, false
	}
	own, rest := t.Namespaces[h.name], t.Namespace
	if h.principal {
		own, rest = t.Principals[h.name], t.Principal
	}
	if n, ok := own[r]; ok {
		return n, true
	}
	most, said = rest[r]
	return most, said
}

// Validate lists all faults at once; served are the namespaces that there are.
func (t *Table) Validate(served []string) error {
	faults := append(t.Namespace.faults("namespace", ofNamespace), t.Principal.faults("principal", ofPrincipal)...)
	for _, name := range slices.Sorted(maps.Keys(t.Namespaces)) {
		if !slices.Contains(served, name) {
			faults = append(faults, fmt.Errorf("namespaces.%s: is not served; served are %s", name, strings.Join(served, ", ")))
		}
		faults = append(faults, t.Namespaces[name].faults("namespaces."+name, ofNamespace)...)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Principals)) {
		faults = append(faults, t.Principals[name].faults("principals."+name, ofPrincipal)...)
	}
	return errors.Join(faults...)
}

func (b Bounds) faults(at string, known []Resource) (faults []error) {
	for _, r := range slices.Sorted(maps.Keys(b)) {
		switch n := b[r]; {
		case !slices.Contains(known, r):
			faults = append(faults, fmt.Errorf("%s.%s: is none; there are %s", at, r, names(known)))
		case n < 0 || n > maxBound:
			faults = append(faults, fmt.Errorf("%s.%s: is %d, want 0 (no bound) to %d", at, r, n, maxBound))
		}
	}
	return faults
}

func names(known []Resource) string {
	var b strings.Builder
	for i, r := range known {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(r))
	}
	return b.String()
}
