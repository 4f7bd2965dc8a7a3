package policy_test

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/policy"
)

// TestBehalf: what a sidecar says in another's name never has a right that the sidecar
// lacks, nor one that the other lacks.
func TestBehalf(t *testing.T) {
	t.Parallel()
	for by := range policy.AllScopes + 1 {
		for of := range policy.AllScopes + 1 {
			got := policy.Principal{Name: "a", Scopes: by}.Behalf(policy.Principal{Name: "b", Scopes: of})
			if got.Name != "a>b" {
				t.Fatalf("the name is %q", got.Name)
			}
			for one := policy.Scopes(1); one <= policy.Admin; one <<= 1 {
				if got.Scopes.Has(one) != (by.Has(one) && of.Has(one)) {
					t.Fatalf("%q for %q has %q", by, of, got.Scopes)
				}
			}
		}
	}
}

// TestAnswerer: names that are kept give the rights back, others none.
func TestAnswerer(t *testing.T) {
	t.Parallel()
	for scopes := range policy.AllScopes + 1 {
		if got := policy.Answerer("p", scopes.Names()); got.Scopes != scopes || got.Name != "p" {
			t.Fatalf("%q came back as %q", scopes, got.Scopes)
		}
	}
	if got := policy.Answerer("p", []string{"", "everything", "ADMIN", "admin "}); got.Scopes != 0 {
		t.Errorf("unknown names give %q", got.Scopes)
	}
}
