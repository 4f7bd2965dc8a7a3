package auth

import (
	"bytes"
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
	text := "# who may do what\n\nci packs:write " + Digested(goodSecret) + "\napprovals\truns:read,events:external@red,blue\t" + Digested(goodSecret+"2") + "\n"
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
	p := set.Holder(goodSecret + "2")
	if p == nil || p.Name() != "approvals" || p.Scopes != runtime.ScopeRunsRead|runtime.ScopeEventsExternal ||
		p.DefaultNamespace() != "red" || !p.In("blue") || p.In("default") {
		t.Fatalf("found %+v", p)
	}
	if p := set.Holder(goodSecret); p == nil || p.Bound() || !p.In("green") {
		t.Fatalf("who is kept to no namespace is %+v", p)
	}
	// The digest is not a token, nor is what is too short to be one.
	for _, wrong := range []string{goodSecret + "3", Digested(goodSecret), Digested(goodSecret)[7:], ""} {
		if p := set.Holder(wrong); p != nil {
			t.Fatalf("%q is %q", wrong, p.Name())
		}
	}
	short, err := NewTokenSet([]Token{{Principal: "x", Digest: sha256.Sum256([]byte("short")), Scopes: runtime.ScopeWork}})
	if err != nil || short.Holder("short") != nil {
		t.Fatalf("a token that is too short is taken: %v", err)
	}
	if _, err := ReadTokens(path + ".absent"); err == nil {
		t.Fatal("an absent file was read")
	}
}

func TestTokenFaults(t *testing.T) {
	t.Parallel()
	good := Digested(goodSecret)
	tests := []struct{ name, text, want string }{
		{"empty", "# nothing\n", "no token"},
		{"two fields", "ci packs:write\n", "line 1: 2 fields"},
		{"unknown scope", "ci packs:write,packs:read " + good + "\n", `unknown scope "packs:read"; known scopes are packs:write`},
		{"empty scope", "ci packs:write, " + good + "\n", `unknown scope ""`},
		{"as it is sent", "ci packs:write " + goodSecret + "\n", "line 1: the token stands in the file as it is sent"},
		{"a short digest", "ci packs:write sha256:5f1e\n", "64 hexadecimal digits"},
		{"two faults of a line", "ci packs:read sha256:5f1e\n", "; sha256: wants 64 hexadecimal digits"},
		{"no digest", "ci packs:write sha256:" + strings.Repeat("g", 64) + "\n", "64 hexadecimal digits"},
		{"a namespace that is none", "ci packs:write@Red " + good + "\n", `"Red" is no name of a namespace`},
		{"no namespace", "ci packs:write@ " + good + "\n", `"" is no name of a namespace`},
		{"a namespace twice", "ci packs:write@a,a " + good + "\n", `"a" is named twice`},
		{"anonymous", "anonymous packs:write " + good + "\n", `principal "anonymous"`},
		{"the sidecar", "pawl packs:write " + good + "\n", `principal "pawl"`},
		{"its start", "sidecar packs:write " + good + "\n", `principal "sidecar"`},
		{"its cards", "a2a packs:write " + good + "\n", `principal "a2a"`},
		{"its retention", "retention packs:write " + good + "\n", `principal "retention"`},
		{"bad name", "c!i packs:write " + good + "\n", `principal "c!i"`},
		{"twice", "a admin " + good + "\nb work " + good + "\n", `"b" has the token of another`},
		{"all at once", "a admin short\nb work short\n", "line 2"},
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
	f.Add("ci packs:write@red,blue " + Digested(goodSecret) + "\n")
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

// TestHashLines: a file with tokens becomes one with their digests that the same tokens
// open; what is not a token stays.
func TestHashLines(t *testing.T) {
	t.Parallel()
	text := "# who\n\n  ci\tpacks:write  " + goodSecret + " \nold work " + Digested(goodSecret+"2") + "\n"
	hashed, n, err := HashLines([]byte(text))
	if want := strings.Replace(text, goodSecret, Digested(goodSecret), 1); err != nil || n != 1 || string(hashed) != want {
		t.Fatalf("%d lines, %v: %q", n, err, hashed)
	}
	tokens, err := parseTokens(bytes.NewReader(hashed))
	if err != nil {
		t.Fatal(err)
	}
	set, err := NewTokenSet(tokens)
	if err != nil || set.Holder(goodSecret).Name() != "ci" || set.Holder(goodSecret+"2").Name() != "old" {
		t.Fatalf("the tokens no longer open: %v", err)
	}
	again, n, err := HashLines(hashed)
	if err != nil || n != 0 || !bytes.Equal(again, hashed) {
		t.Fatalf("a second time: %d lines, %v", n, err)
	}
	for text, want := range map[string]string{
		"a work short\n": "line 1: 5 characters", "a work\n": "2 fields", "a work ssssssssssssssss\u00e9\n": "printable ASCII",
	} {
		if _, _, err := HashLines([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "short\"") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNewSecret: no two tokens are alike, and a line is what the file's reader takes.
func TestNewSecret(t *testing.T) {
	t.Parallel()
	one, two := NewSecret(), NewSecret()
	line, err := TokenLine("ci", "work@red", one)
	if err != nil || one == two || strings.Contains(line, one) || len(one) != 43 {
		t.Fatalf("%q, %q, %v", one, line, err)
	}
	token, err := parseToken(line)
	if err != nil || token.Principal != "ci" || token.Namespaces[0] != "red" || token.Digest != sha256.Sum256([]byte(one)) {
		t.Fatalf("%+v, %v", token, err)
	}
	if _, err := TokenLine("pawl", "work", one); err == nil {
		t.Fatal("a token for a name of the sidecar's own")
	}
}

// FuzzParseCertificates: a file of rights is read or refused.
func FuzzParseCertificates(f *testing.F) {
	f.Add("cert:ci-deploy packs:write\n# comment\n* runs:read\n")
	f.Add("dns:x work,work\nuri:spiffe://a/b  admin")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseCertificates(text) })
}
