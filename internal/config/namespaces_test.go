package config

import (
	"errors"
	"strings"
	"testing"
)

// TestNamespaceNames: what requests cannot name is no namespace.
func TestNamespaceNames(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Data = t.TempDir()
	c.Namespaces = []string{"red", "blue-2", "default", strings.Repeat("a", 63)}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"Red"}, {""}, {"2red"}, {"red,blue"}, {strings.Repeat("a", 64)}, {"red", "red"}, {"sha256"}, make([]string, maxNamespaces+1)} {
		c.Namespaces = names
		var e *Error
		if err := c.Validate(); !errors.As(err, &e) || e.Faults[0].Field != "namespace" {
			t.Errorf("%d names from %q: %v", len(names), names[0], err)
		}
	}
}
