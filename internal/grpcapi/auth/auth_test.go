package auth

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// TestLostNamespaces: a stream ends when it may not be where it was, or means another
// place than it did by naming none.
func TestLostNamespaces(t *testing.T) {
	t.Parallel()
	of := func(names ...string) runtime.Principal { return runtime.Principal{Namespaces: names} }
	for what, tt := range map[string]struct {
		was, is runtime.Principal
		lost    bool
	}{
		"the same":        {of("red", "blue"), of("red", "blue"), false},
		"one more":        {of("red"), of("red", "blue"), false},
		"one less":        {of("red", "blue"), of("red"), true},
		"another order":   {of("red", "blue"), of("blue", "red"), true},
		"kept to some":    {of(), of("red"), true},
		"kept to none":    {of("red"), of(), true},
		"never was bound": {of(), of(), false},
	} {
		if got := hasLostNamespace(tt.was, tt.is); got != tt.lost {
			t.Errorf("%s: lost %t", what, got)
		}
	}
}
