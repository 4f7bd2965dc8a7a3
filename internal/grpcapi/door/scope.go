package door

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// EveryScope in the order of the documentation.
var EveryScope = []runtime.Scopes{
	runtime.ScopePacksWrite, runtime.ScopeRunsWrite, runtime.ScopeRunsRead,
	runtime.ScopeEventsExternal, runtime.ScopeWork, runtime.ScopeAdmin,
}

// ParseScopes reads a comma-separated list of scope names: packs:write,
// runs:write, runs:read, events:external, work, admin (which holds all others).
// An unknown or empty name is an error that lists the known ones.
func ParseScopes(list string) (runtime.Scopes, error) {
	var set runtime.Scopes
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(EveryScope, func(s runtime.Scopes) bool { return s.String() == strings.TrimSpace(name) })
		if i < 0 {
			return 0, fmt.Errorf("unknown scope %q; known scopes are %s", name, knownScopes())
		}
		set |= EveryScope[i]
	}
	return set, nil
}

func knownScopes() string {
	var all runtime.Scopes
	for _, s := range EveryScope {
		all |= s
	}
	return all.String()
}
