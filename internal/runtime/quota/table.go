package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Resource is a resource with a bound. The value is the name of the resource in the quota file.
type Resource string

// These are the resources. Principals have bounds only for the first three.
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

// Bounds are the bounds of one holder. A bound of 0 means that there is none.
type Bounds map[Resource]int64

// Table holds the bounds of all holders. It is immutable once it is applied.
type Table struct {
	// Namespace and Principal are the defaults. They apply to holders that have no entry below, and to
	// resources that the entry of a holder does not set.
	Namespace, Principal Bounds
	// Namespaces and Principals are by name.
	Namespaces, Principals map[string]Bounds
}

// Holder is the user of a resource: a namespace or a principal.
type Holder struct {
	principal bool
	name      string
}

// Namespace returns the holder for one namespace.
func Namespace(name string) Holder { return Holder{name: name} }

// Principal returns the holder for one principal. Its usage is counted over all namespaces.
func Principal(name string) Holder { return Holder{principal: true, name: name} }

func (h Holder) kind() string {
	if h.principal {
		return "principal"
	}
	return "namespace"
}

// of returns a bound. 0 means that there is none. said reports whether the table sets the bound.
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

// Validate returns all errors of the table at once. served are the configured namespaces.
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
