package validate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// DefaultNamespace is the namespace of calls that do not name a namespace. Its number is 0.
const DefaultNamespace = "default"

// Namespaces maps the names of the served namespaces to their numbers. A number is never reused.
// The map must not change while it is used.
type Namespaces map[string]uint32

// WithDefault returns a copy that includes the default namespace with the number 0.
func (n Namespaces) WithDefault() Namespaces {
	all := Namespaces{DefaultNamespace: 0}
	maps.Copy(all, n)
	return all
}

// Number returns the number of a namespace. The name "" means the default namespace. Error: NOT_FOUND
// NAMESPACE_NOT_FOUND.
func (n Namespaces) Number(name string) (uint32, error) {
	if name == "" {
		return 0, nil
	}
	if number, ok := n[name]; ok {
		return number, nil
	}
	return 0, NotServed(name, n.Names())
}

// Within does the same as [Namespaces.Number] for a principal that may use only the namespaces in only.
// If only is nil, the principal may use all. For every other namespace the error is the same, whether
// it exists or not.
func (n Namespaces) Within(name string, only []string) (uint32, error) {
	if only == nil {
		return n.Number(name)
	}
	if name == "" {
		name = DefaultNamespace
	}
	number, served := n[name]
	if !served || !slices.Contains(only, name) {
		return 0, NotServed(name, only)
	}
	return number, nil
}

// NotServed returns the error for a namespace that the caller may not use. allowed are the namespaces
// that the caller may use.
func NotServed(name string, allowed []string) error {
	return &machine.Error{
		Code: machine.CodeNotFound, Reason: "NAMESPACE_NOT_FOUND", Field: "namespace",
		Message: fmt.Sprintf("namespace %q is not configured", name), Allowed: allowed,
	}
}

// Names lists the names in order.
func (n Namespaces) Names() []string { return slices.Sorted(maps.Keys(n)) }

// Name returns the name of the namespace with this number. It returns "" if the number is not
// configured.
func (n Namespaces) Name(number uint32) string {
	for name, of := range n {
		if of == number {
			return name
		}
	}
	return ""
}

// Validate returns all errors at once.
func (n Namespaces) Validate() []error {
	var faults []error
	taken := map[uint32]string{0: DefaultNamespace}
	for name, number := range n {
		other, used := taken[number]
		switch {
		case name == "":
			faults = append(faults, errors.New("a namespace has no name"))
		case name == DefaultNamespace && number != 0:
			faults = append(faults, fmt.Errorf("namespace %q has number %d; it is always 0", name, number))
		case used && other != name:
			faults = append(faults, fmt.Errorf("namespaces %q and %q share number %d", other, name, number))
		}
		taken[number] = name
	}
	return faults
}
