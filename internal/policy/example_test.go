package policy_test

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
)

// A principal with the scope events:external moves a run out of a state with orchestration external. The
// principal that drives the run cannot.
func ExampleDecide() {
	for _, p := range []policy.Principal{
		{Subject: "bot", Scopes: policy.RunsWrite | policy.RunsRead},
		{Subject: "alice", Scopes: policy.EventsExternal},
	} {
		verdict, err := policy.Decide(policy.Ask{Act: policy.Emit, Orchestration: policy.External, Principal: p})
		if denied, ok := errors.AsType[*policy.Denied](err); ok {
			fmt.Println(p.Subject, denied.Reason, denied.Scopes)
			continue
		}
		fmt.Println(p.Subject, "from outside:", verdict.Outside)
	}
	// Output:
	// bot SCOPE_MISSING events:external
	// alice from outside: true
}

func ExampleScopes() {
	scopes := policy.RunsRead | policy.RunsWrite
	fmt.Println(scopes, scopes.Has(policy.RunsWrite), scopes.Has(policy.Work))
	admin, known := policy.ScopeByName("admin")
	fmt.Println(admin.Has(policy.Work), known)
	// Output:
	// runs:write runs:read true false
	// true true
}

// An allowlist without names allows no tool.
func ExampleAllowlist() {
	var none policy.Allowlist
	some, all := policy.NewAllowlist([]string{"run_tests"}), policy.NewAllowlist([]string{"*"})
	fmt.Println(none.Allows("run_tests"), some.Allows("run_tests"), some.Allows("rm"), all.Allows("rm"))
	// Output: false true false true
}
