package policy_test

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/policy"
)

func TestScopes(t *testing.T) {
	t.Parallel()
	if policy.Anonymous().Scopes.Has(policy.Admin) {
		t.Fatal("anonymous holds admin")
	}
	for _, name := range policy.AllScopes.Names() {
		scope, ok := policy.ScopeByName(name)
		if !ok || scope.String() != name {
			t.Fatalf("ScopeByName(%q) = %v, %v", name, scope, ok)
		}
		if !policy.Admin.Has(scope) {
			t.Fatalf("admin lacks %s", name)
		}
		if held := policy.Anonymous().Scopes.Has(scope); held != (scope != policy.Admin) {
			t.Fatalf("anonymous holds %s: %v", name, held)
		}
	}
	if _, ok := policy.ScopeByName("runs"); ok {
		t.Fatal("an unknown scope was found")
	}
	if policy.RunsRead.Has(policy.RunsRead | policy.RunsWrite) {
		t.Fatal("one of two scopes is not both")
	}
}

func TestMaySeeRuns(t *testing.T) {
	t.Parallel()
	for scopes, want := range map[policy.Scopes]bool{
		0: false, policy.PacksWrite: false, policy.Work: false,
		policy.RunsRead: true, policy.RunsWrite: true, policy.EventsExternal: true, policy.Admin: true,
	} {
		if got := (policy.Principal{Scopes: scopes}).MaySeeRuns(); got != want {
			t.Errorf("MaySeeRuns with %q = %v", scopes, got)
		}
	}
}

func TestAllowlistIsDefaultDeny(t *testing.T) {
	t.Parallel()
	tests := []struct {
		names []string
		admit map[string]bool
	}{
		{nil, map[string]bool{"run_tests": false, "*": false, "": false}},
		{[]string{""}, map[string]bool{"run_tests": false}},
		{[]string{"run_tests"}, map[string]bool{"run_tests": true, "write_file": false, "run_tests2": false}},
		{[]string{"*"}, map[string]bool{"run_tests": true, "anything": true}},
	}
	for _, tt := range tests {
		list := policy.NewAllowlist(tt.names)
		for tool, want := range tt.admit {
			if got := list.Allows(tool); got != want {
				t.Errorf("NewAllowlist(%q).Admits(%q) = %v", tt.names, tool, got)
			}
		}
	}
	if (policy.Allowlist{}).Allows("run_tests") {
		t.Error("the zero list admits a tool")
	}
}
