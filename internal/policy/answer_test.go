package policy_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/policy"
)

// TestBehalf: what a sidecar says in another's name takes the scope for it, never has a right
// that the sidecar lacks, nor one that the other lacks, and keeps the sidecar in its name.
func TestBehalf(t *testing.T) {
	t.Parallel()
	for by := range policy.AllScopes + 1 {
		// Each right alone, none, and all: those of a set are independent.
		for _, of := range []policy.Scopes{0, policy.AllScopes, policy.AllScopes &^ policy.Admin, by, policy.AllScopes &^ by, policy.Admin, policy.StepsApprove, policy.RunsWrite | policy.AnswerFor} {
			got, err := policy.Principal{Subject: "a", Scopes: by}.OnBehalfOf(policy.Principal{Subject: "b", Scopes: of})
			var denied *policy.Denied
			if may := by.Has(policy.AnswerFor); may != (err == nil) || !may && (!errors.As(err, &denied) || denied.Reason != "SCOPE_MISSING" || denied.Scopes != policy.AnswerFor) {
				t.Fatalf("by %q: %v", by, err)
			}
			if err != nil {
				continue
			}
			if got.Name() != "a>b" || got.Speaker() != "a" || got.Subject != "b" || got.Proof != policy.Claimed {
				t.Fatalf("the principal is %+v", got)
			}
			for one := policy.Scopes(1); one <= policy.AllScopes; one <<= 1 {
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
		if got := policy.Answerer("p", scopes.Names()); got.Scopes != scopes || got.Name() != "p" || got.Proof != policy.Recorded {
			t.Fatalf("%q came back as %q", scopes, got.Scopes)
		}
	}
	if got := policy.Answerer("p", []string{"", "everything", "ADMIN", "admin "}); got.Scopes != 0 {
		t.Errorf("unknown names give %q", got.Scopes)
	}
}

// TestStoredNames: the stored form of a name is what it was before names had parts, and every
// text that may be stored comes back as it is.
func TestStoredNames(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]policy.Identity{
		"dave":            {Subject: "dave"},
		"":                {},
		"oidc:a@b/c":      {Subject: "oidc:a@b/c"},
		"bridge>dave":     {Subject: "dave", Chain: []string{"bridge"}},
		"bridge>far>dave": {Subject: "dave", Chain: []string{"bridge", "far"}},
		"bridge>":         {Chain: []string{"bridge"}},
		">>":              {Chain: []string{"", ""}},
	} {
		if got := policy.IdentityOf(stored); !reflect.DeepEqual(got, want) || got.String() != stored {
			t.Errorf("%q is %+v, stored %q", stored, got, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		stored := rapid.StringOf(rapid.SampledFrom([]rune("ab>\u00e9 "))).Draw(t, "stored")
		if got := policy.IdentityOf(stored); got.String() != stored || len(got.Parts()) != len(got.Chain)+1 || got.Parts()[0] != got.Speaker() {
			t.Fatalf("%q is %+v", stored, got)
		}
	})
}

// TestParts: principals are compared by their parts.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b         string
		shares, owns bool
	}{
		{"dave", "dave", true, true},
		{"dave", "ann", false, false},
		{"dave>ann", "dave", true, false},
		{"ann>dave", "dave", true, false},
		{"ann>dave", "ann>dave", true, true},
		{"ann>dave", "dave>ann", true, false},
		{"ann>far>dave", "far", true, false},
		{"ann>bob", "bobby", false, false},
	} {
		a, b := policy.IdentityOf(row.a), policy.IdentityOf(row.b)
		if a.SharesPrincipal(b) != row.shares || b.SharesPrincipal(a) != row.shares {
			t.Errorf("%s shares a part with %s: %v", row.a, row.b, !row.shares)
		}
		if p := policy.Answerer(row.a, nil); p.Owns(row.b) != row.owns {
			t.Errorf("%s owns what is %s's: %v", row.a, row.b, !row.owns)
		}
	}
	for name, alone := range map[string]bool{"dave": true, "": false, "a>b": false, ">": false} {
		if policy.IsPrincipalName(name) != alone {
			t.Errorf("%q is a name by itself: %v", name, !alone)
		}
	}
}

// TestPrincipalsBetweenNodes: a principal is on its way to another node what it was before it had
// parts, and one that an older node sends is understood.
func TestPrincipalsBetweenNodes(t *testing.T) {
	t.Parallel()
	for _, p := range []policy.Principal{
		{}, policy.Anonymous(),
		{Subject: "dave", Scopes: policy.RunsRead, Namespaces: []string{"red"}, Proof: policy.ByToken},
		{Subject: "dave", Chain: []string{"bridge"}, Proof: policy.Claimed},
		{Subject: policy.SidecarName, Scopes: policy.Work, Proof: policy.BySidecar},
	} {
		text, err := json.Marshal(p.Wire())
		if err != nil {
			t.Fatal(err)
		}
		var wire policy.Wire
		var older struct {
			Name       string
			Scopes     policy.Scopes
			Namespaces []string
			Own        bool
		}
		if err := errors.Join(json.Unmarshal(text, &wire), json.Unmarshal(text, &older)); err != nil || !reflect.DeepEqual(wire.Principal(), p) {
			t.Errorf("%+v came as %+v: %v", p, wire, err)
		}
		if older.Name != p.Name() || older.Scopes != p.Scopes || !slices.Equal(older.Namespaces, p.Namespaces) || older.Own != p.Own() {
			t.Errorf("%+v is %+v to an older node", p, older)
		}
	}
	var sent policy.Wire
	if err := json.Unmarshal([]byte(`{"Name":"sidecar","Scopes":20,"Namespaces":null,"Own":true}`), &sent); err != nil || !sent.Principal().Own() || sent.Principal().Bound() {
		t.Errorf("the sidecar of an older node is %+v, %v", sent, err)
	}
}
