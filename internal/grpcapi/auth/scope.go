package auth

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// EveryScope contains all scopes in the order in which the documentation lists them.
var EveryScope = []runtime.Scopes{
	runtime.ScopePacksWrite, runtime.ScopeRunsWrite, runtime.ScopeRunsRead,
	runtime.ScopeEventsExternal, runtime.ScopeWork, runtime.ScopeAdmin, runtime.ScopeRunsDelete,
	runtime.ScopeValuesSensitive, runtime.ScopeStoreRead, runtime.ScopeRunsErase,
	runtime.ScopeBudgetsWrite, runtime.ScopeStepsApprove, policy.AnswerFor,
}

// ParseScopes reads a comma-separated list of scope names: packs:write, runs:write, runs:read,
// events:external, work, admin (which includes all others), runs:delete, values:sensitive, store:read,
// runs:erase, budgets:write, steps:approve, tasks:answer-for. For an unknown or empty name the error
// lists the known names.
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

// namespaceName is the form of a namespace's name, as in the proto files.
var namespaceName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// parseGrant reads the rights in a line. The form SCOPE[,SCOPE...] gives scopes in every namespace. The
// form SCOPE[,SCOPE...]@NAMESPACE[,NAMESPACE...] gives them only in these namespaces. The first
// namespace applies to calls that do not name one.
func parseGrant(text string) (runtime.Scopes, []string, error) {
	list, names, bound := strings.Cut(text, "@")
	scopes, err := ParseScopes(list)
	if err != nil || !bound {
		return scopes, nil, err
	}
	namespaces := strings.Split(names, ",")
	return scopes, namespaces, checkNamespaces(namespaces)
}

// checkNamespaces returns an error for a name that no namespace can have, or that occurs twice.
func checkNamespaces(names []string) error {
	for i, name := range names {
		if !namespaceName.MatchString(name) {
			return fmt.Errorf("%q is no name of a namespace: want a-z and up to 62 of a-z, 0-9 and -", apierror.Clip(name, apierror.MaxFieldBytes))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("namespace %q is named twice", name)
		}
	}
	return nil
}

func knownScopes() string {
	var all runtime.Scopes
	for _, s := range EveryScope {
		all |= s
	}
	return all.String()
}
