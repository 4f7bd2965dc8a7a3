package door

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
)

const goodSecret = "o8Zc2mJ5hQ1rT7vX"

func TestReadTokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	text := "# who may do what\n\nci packs:write " + goodSecret + "\napprovals\truns:read,events:external\t" + goodSecret + "2\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := ReadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	set, err := NewTokenSet(tokens)
	if err != nil {
		t.Fatal(err)
	}
	p := set.find(sha256.Sum256([]byte(goodSecret + "2")))
	if p == nil || p.Name != "approvals" || p.Scopes != runtime.ScopeRunsRead|runtime.ScopeEventsExternal {
		t.Fatalf("found %+v", p)
	}
	if p := set.find(sha256.Sum256([]byte(goodSecret + "3"))); p != nil {
		t.Fatalf("an unknown token is %q", p.Name)
	}
	if _, err := ReadTokens(path + ".absent"); err == nil {
		t.Fatal("an absent file was read")
	}
}

func TestTokenFaults(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"empty", "# nothing\n", "no token"},
		{"two fields", "ci packs:write\n", "line 1: 2 fields"},
		{"unknown scope", "ci packs:write,packs:read " + goodSecret + "\n", `unknown scope "packs:read"; known scopes are packs:write`},
		{"empty scope", "ci packs:write, " + goodSecret + "\n", `unknown scope ""`},
		{"short", "ci packs:write short\n", "at least 16"},
		{"anonymous", "anonymous packs:write " + goodSecret + "\n", `principal "anonymous"`},
		{"bad name", "c!i packs:write " + goodSecret + "\n", `principal "c!i"`},
		{"not ASCII", "ci packs:write ssssssssssssssssé\n", "printable ASCII"},
		{"twice", "a admin " + goodSecret + "\nb work " + goodSecret + "\n", `"b" has the token of another`},
		{"all at once", "a admin short\nb work short\n", `"b"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tokens, err := parseTokens(strings.NewReader(tt.text))
			if err == nil {
				_, err = NewTokenSet(tokens)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q in it", err, tt.want)
			}
			if strings.Contains(err.Error(), goodSecret) {
				t.Fatalf("the error tells a token: %v", err)
			}
		})
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add("ci packs:write " + goodSecret + "\n")
	f.Add("#\n\n a  b  c d")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := parseTokens(strings.NewReader(text))
		if err == nil && len(tokens) == 0 {
			t.Fatal("neither tokens nor an error")
		}
		if set, err := NewTokenSet(tokens); err == nil && len(set.Principals) != len(tokens) {
			t.Fatal("a token was lost")
		}
	})
}
