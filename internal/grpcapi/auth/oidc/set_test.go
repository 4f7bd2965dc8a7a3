package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// authority is an issuer: a server whose keys the test replaces.
type authority struct {
	t       testing.TB
	url     string
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	broken  bool
	fetched atomic.Int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	server := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *authority) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.broken:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": a.url, "jwks_uri": a.url + "/keys"})
	default:
		a.fetched.Add(1)
		set := jose.JSONWebKeySet{}
		for _, key := range a.keys {
			set.Keys = append(set.Keys, key.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	}
}

// publish replaces the keys.
func (a *authority) publish(keys ...jose.JSONWebKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = keys
}

func (a *authority) fail(broken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = broken
}

func ecKey(t testing.TB, kid string) jose.JSONWebKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: kid, Use: "sig"}
}

func sign(t testing.TB, key any, alg jose.SignatureAlgorithm, kid string, says map[string]any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(says).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// noon is the time of these tests.
var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// bench has a set of issuers with one authority, and a clock.
type bench struct {
	*Set
	at          *authority
	time        atomic.Int64
	removedKeys atomic.Int64
	key         jose.JSONWebKey
}

func newBench(t testing.TB, change ...func(*Issuer)) *bench {
	t.Helper()
	b := &bench{at: newAuthority(t), key: ecKey(t, "one")}
	b.at.publish(b.key)
	b.time.Store(noon.UnixNano())
	issuer := Issuer{
		Issuer: b.at.url, Audience: []string{"pawl", "other"},
		Scopes:     Grants{Claim: "realm.roles", Map: map[string][]string{"driver": {"runs:write", "runs:read"}, "boss": {"admin"}}},
		Namespaces: Spaces{Claim: "team", Map: map[string][]string{"r": {"red"}, "b": {"blue", "red"}}},
		Deny:       []string{"oidc:mallory"},
	}
	for _, f := range change {
		f(&issuer)
	}
	set, err := NewSet([]Issuer{issuer}, nil, func() { b.removedKeys.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	set.now = func() time.Time { return time.Unix(0, b.time.Load()) }
	b.Set = set
	return b
}

func (b *bench) pass(d time.Duration) { b.time.Add(int64(d)) }

// claims returns the claims of a good token, changed by pairs of a name and a value. nil removes a claim.
func (b *bench) claims(pairs ...any) map[string]any {
	now := time.Unix(0, b.time.Load())
	c := map[string]any{
		"iss": b.at.url, "sub": "alice", "aud": []string{"pawl"}, "exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(),
		"realm": map[string]any{"roles": []string{"driver", "stranger"}}, "team": "b r",
	}
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i].(string)] = pairs[i+1]
		if pairs[i+1] == nil {
			delete(c, pairs[i].(string))
		}
	}
	return c
}

func reasonOf(err error) string {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return refusal.Reason
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func (b *bench) want(t testing.TB, what, token, reason string) *Identity {
	t.Helper()
	id, err := b.Identify(t.Context(), token)
	if reasonOf(err) != reason || (err == nil) != (id != nil) && reason != "TOKEN_EXPIRED" {
		t.Errorf("%s: %v, want %q", what, err, reason)
	}
	if err != nil && strings.Contains(err.Error(), token) {
		t.Errorf("%s: the error tells the token", what)
	}
	return id
}

// TestClaimsBecomeAPrincipal: the principal has what the rules name and nothing else.
func TestClaimsBecomeAPrincipal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.want(t, "a good token", sign(t, b.key.Key, jose.ES256, "one", b.claims()), "")
	want := runtime.Principal{Subject: "oidc:alice", Proof: policy.ByIssuer, Scopes: runtime.ScopeRunsWrite | runtime.ScopeRunsRead, Namespaces: []string{"blue", "red"}}
	if !reflect.DeepEqual(id.Principal, want) {
		t.Fatalf("the principal is %+v", id.Principal)
	}
	none := b.want(t, "no scope", sign(t, b.key.Key, jose.ES256, "one", b.claims("realm", nil)), "")
	if none.Principal.Scopes != 0 {
		t.Errorf("without the claim: %q", none.Principal.Scopes)
	}
	for what, says := range map[string]map[string]any{
		"no namespace":        b.claims("team", nil),
		"an unknown team":     b.claims("team", "red"),
		"no name":             b.claims("sub", nil),
		"a name that is none": b.claims("sub", "a\nb"),
		"another's name":      b.claims("sub", "a>b"),
		"a long name":         b.claims("sub", strings.Repeat("x", 300)),
		"denied":              b.claims("sub", "mallory"),
		"another audience":    b.claims("aud", "somebody"),
		"no audience":         b.claims("aud", nil),
		"not yet":             b.claims("nbf", noon.Add(31*time.Second).Unix()),
		"no end":              b.claims("exp", nil),
	} {
		b.want(t, what, sign(t, b.key.Key, jose.ES256, "one", says), "TOKEN_REFUSED")
	}
	b.want(t, "within the leeway", sign(t, b.key.Key, jose.ES256, "one", b.claims("nbf", noon.Add(29*time.Second).Unix())), "")
	b.want(t, "ended within it", sign(t, b.key.Key, jose.ES256, "one", b.claims("exp", noon.Add(-29*time.Second).Unix())), "")
	b.want(t, "ended", sign(t, b.key.Key, jose.ES256, "one", b.claims("exp", noon.Add(-31*time.Second).Unix())), "TOKEN_EXPIRED")
	b.want(t, "another issuer", sign(t, b.key.Key, jose.ES256, "one", b.claims("iss", b.at.url+"/")), "TOKEN_UNKNOWN")
}

// TestForgedTokens: a token that was not signed with a private key of an issuer is refused.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(i *Issuer) { i.Algorithms = []string{"RS256", "ES256", "EdDSA"} })
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024) // it is there to be refused
	if err != nil {
		t.Fatal(err)
	}
	b.at.publish(b.key, jose.JSONWebKey{Key: rsaKey, KeyID: "rsa"}, jose.JSONWebKey{Key: weak, KeyID: "weak"}, jose.JSONWebKey{Key: ecKey(t, "enc").Key, KeyID: "enc", Use: "enc"})
	b.want(t, "RS256", sign(t, rsaKey, jose.RS256, "rsa", b.claims()), "")
	good := sign(t, b.key.Key, jose.ES256, "one", b.claims())
	parts := strings.Split(good, ".")
	der, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"one"}`))
	other := ecKey(t, "one")
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	claimed, _ := json.Marshal(b.claims("sub", "boss"))
	for what, token := range map[string]string{
		"no algorithm":           none + "." + parts[1] + ".",
		"no signature":           parts[0] + "." + parts[1] + ".",
		"another's signature":    parts[0] + "." + base64.RawURLEncoding.EncodeToString(claimed) + "." + parts[2],
		"HMAC by the public key": sign(t, public, jose.HS256, "rsa", b.claims()),
		"HMAC by the DER":        sign(t, der, jose.HS256, "rsa", b.claims()),
		"another key of the kid": sign(t, other.Key, jose.ES256, "one", b.claims()),
		"a key of nobody":        sign(t, edwards, jose.EdDSA, "two", b.claims()),
		"a weak key":             sign(t, weak, jose.RS256, "weak", b.claims()),
		"an algorithm not named": sign(t, rsaKey, jose.RS512, "rsa", b.claims()),
		"another kind of key":    sign(t, rsaKey, jose.RS256, "one", b.claims()),
		"no kid among many":      sign(t, b.key.Key, jose.ES256, "", b.claims()),
		"an empty one":           "..",
		"no token":               "a.b.c",
	} {
		b.want(t, what, token, "TOKEN_UNKNOWN")
	}
	if MaybeJWT("a.b") || MaybeJWT(strings.Repeat("a", maxTokenBytes)+"..") || !MaybeJWT(good) {
		t.Error("what looks like a token")
	}
}

// TestKeysTurnOver: once the keys are fetched again, a new key is accepted and a removed key is refused.
// Tokens with unknown keys cause at most one fetch in ten seconds.
func TestKeysTurnOver(t *testing.T) {
	t.Parallel()
	b, two := newBench(t), ecKey(t, "two")
	old := sign(t, b.key.Key, jose.ES256, "one", b.claims())
	id := b.want(t, "the first key", old, "")
	for range 50 {
		b.want(t, "a key of nobody", sign(t, two.Key, jose.ES256, "two", b.claims()), "TOKEN_UNKNOWN")
	}
	if got := b.at.fetched.Load(); got != 1 {
		t.Fatalf("fetched %d times", got)
	}
	b.at.publish(b.key, two)
	b.want(t, "too soon", sign(t, two.Key, jose.ES256, "two", b.claims()), "TOKEN_UNKNOWN")
	b.pass(notBefore)
	b.want(t, "a new key", sign(t, two.Key, jose.ES256, "two", b.claims()), "")
	b.want(t, "the old key beside it", old, "")
	if got := b.at.fetched.Load(); got != 2 || b.removedKeys.Load() != 0 {
		t.Fatalf("fetched %d times, %d keys lost", got, b.removedKeys.Load())
	}
	b.at.publish(two)
	b.pass(notBefore)
	b.want(t, "what has them fetched", sign(t, b.key.Key, jose.ES256, "three", b.claims()), "TOKEN_UNKNOWN")
	b.want(t, "a key that is gone", old, "TOKEN_UNKNOWN")
	if _, err := b.Revalidate(id); reasonOf(err) != "TOKEN_UNKNOWN" || b.removedKeys.Load() != 1 {
		t.Errorf("a stream of a key that is gone: %v, told %d times", err, b.removedKeys.Load())
	}
	// Another key under the same name is another key.
	again := ecKey(t, "two")
	b.want(t, "before", sign(t, two.Key, jose.ES256, "two", b.claims("sub", "bob")), "")
	b.at.publish(again)
	b.pass(notBefore)
	b.want(t, "what has them fetched", sign(t, two.Key, jose.ES256, "four", b.claims()), "TOKEN_UNKNOWN")
	b.want(t, "a kid that was given away", sign(t, two.Key, jose.ES256, "two", b.claims("sub", "bob")), "TOKEN_UNKNOWN")
}

// TestKnownTokensGoWithTheirKey: the keys are fetched again when it is time, even if all callers show known
// tokens. A known token is refused once its key is gone.
func TestKnownTokensGoWithTheirKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := sign(t, b.key.Key, jose.ES256, "one", b.claims("exp", noon.Add(48*time.Hour).Unix()))
	b.want(t, "at first", token, "")
	b.at.publish(ecKey(t, "two"))
	b.pass(refreshEvery)
	b.want(t, "until it is time", token, "")
	b.pass(time.Second)
	// The old keys serve until the new ones have come.
	late, look := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		_, err := b.Identify(t.Context(), token)
		if reasonOf(err) == "TOKEN_UNKNOWN" {
			break
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("a token of a withdrawn key: %v, fetched %d times", err, b.at.fetched.Load())
		}
	}
	if b.at.fetched.Load() != 2 || b.removedKeys.Load() != 1 {
		t.Errorf("fetched %d times, %d keys lost", b.at.fetched.Load(), b.removedKeys.Load())
	}
}

// TestWhatRulesMayGive: MayHave says, without a token, whether the rules could give a principal a scope in a
// namespace.
func TestWhatRulesMayGive(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		spaces     Spaces
		scope      string
		red, green bool
	}{
		"all":            {Spaces{All: true}, "runs:read", true, true},
		"fixed":          {Spaces{Fixed: []string{"red"}}, "runs:read", true, false},
		"a claim":        {Spaces{Claim: "team"}, "admin", true, true},
		"a claim's map":  {Spaces{Claim: "team", Map: map[string][]string{"r": {"red"}}}, "runs:read", true, false},
		"no such scope":  {Spaces{All: true}, "work", false, false},
		"nobody's claim": {Spaces{Claim: "team", Map: map[string][]string{}}, "runs:read", false, false},
	} {
		b := newBench(t, func(i *Issuer) {
			i.Namespaces, i.Scopes.Map = tt.spaces, map[string][]string{"x": {tt.scope}}
		})
		red, green := b.MayHave("oidc:bob", runtime.ScopeRunsRead, "red"), b.MayHave("oidc:bob", runtime.ScopeRunsRead, "green")
		if red != tt.red || green != tt.green {
			t.Errorf("%s: red %t, green %t", what, red, green)
		}
	}
}

// TestDiscoveryStaysSecret: an issuer with https may not name an address of keys without https, not even a
// loopback address.
func TestDiscoveryStaysSecret(t *testing.T) {
	t.Parallel()
	inside := newAuthority(t)
	inside.publish(ecKey(t, "one"))
	names := inside.url + "/keys"
	var remote *httptest.Server
	remote = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			inside.serve(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": remote.URL, "jwks_uri": names})
	}))
	t.Cleanup(remote.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: remote.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := newFetcher(&Issuer{Issuer: remote.URL, CA: ca})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.fetch(t.Context()); err == nil || inside.fetched.Load() != 0 {
		t.Errorf("keys without https: %v, fetched %d times", err, inside.fetched.Load())
	}
	names = remote.URL + "/keys"
	if _, err := from.fetch(t.Context()); err != nil || inside.fetched.Load() != 1 {
		t.Errorf("keys with https: %v, fetched %d times", err, inside.fetched.Load())
	}
}

// TestKeysThatCannotBeFetched: old keys serve for a day. After that, tokens are refused with KEYS_UNAVAILABLE.
func TestKeysThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.at.fail(true)
	b.want(t, "never fetched", sign(t, b.key.Key, jose.ES256, "one", b.claims()), "KEYS_UNAVAILABLE")
	b.at.fail(false)
	b.want(t, "too soon", sign(t, b.key.Key, jose.ES256, "one", b.claims()), "KEYS_UNAVAILABLE")
	b.pass(notBefore)
	b.want(t, "later", sign(t, b.key.Key, jose.ES256, "one", b.claims()), "")
	known := sign(t, b.key.Key, jose.ES256, "one", b.claims("exp", noon.Add(48*time.Hour).Unix()))
	b.want(t, "one for two days", known, "")
	b.at.fail(true)
	b.pass(staleAfter)
	b.want(t, "a day old", sign(t, b.key.Key, jose.ES256, "one", b.claims()), "")
	b.pass(time.Minute)
	b.want(t, "older", sign(t, b.key.Key, jose.ES256, "one", b.claims()), "KEYS_UNAVAILABLE")
	b.want(t, "older, and known", known, "KEYS_UNAVAILABLE")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newBench(t).Identify(ctx, "a.b.c"); reasonOf(err) != "TOKEN_UNKNOWN" {
		t.Errorf("a caller that gave up: %v", err)
	}
}

// TestVerifiedTokensEnd: a verified token is remembered only until it expires.
func TestVerifiedTokensEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := sign(t, b.key.Key, jose.ES256, "one", b.claims())
	b.want(t, "at first", token, "")
	b.pass(time.Hour + 29*time.Second)
	id := b.want(t, "at last", token, "")
	b.pass(2 * time.Second)
	b.want(t, "after its end", token, "TOKEN_EXPIRED")
	if _, err := b.Revalidate(id); reasonOf(err) != "TOKEN_EXPIRED" {
		t.Errorf("a stream after its end: %v", err)
	}
}

// TestOtherRules: when the rules are read again, streams are checked by the new rules. The keys that are there
// are used, and none are fetched.
func TestOtherRules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.want(t, "a good token", sign(t, b.key.Key, jose.ES256, "one", b.claims()), "")
	next := b.issuers[b.at.url].Issuer
	next.Scopes.Map, next.Deny = map[string][]string{"driver": {"work"}}, nil
	set, err := NewSet([]Issuer{next}, b.Set, func() {})
	if err != nil {
		t.Fatal(err)
	}
	set.now = b.now
	again, err := set.Revalidate(id)
	if err != nil || again.Principal.Scopes != runtime.ScopeWork || b.at.fetched.Load() != 1 {
		t.Fatalf("%+v, %v, fetched %d times", again, err, b.at.fetched.Load())
	}
	next.Deny = []string{"oidc:alice"}
	if set, err = NewSet([]Issuer{next}, set, func() {}); err != nil {
		t.Fatal(err)
	}
	set.now = b.now
	if _, err := set.Revalidate(id); reasonOf(err) != "TOKEN_REFUSED" || set.MayHave("oidc:alice", runtime.ScopeWork, "red") || !set.MayHave("oidc:bob", runtime.ScopeWork, "red") || !set.MayCollide("oidc:alice") || set.MayHave("bob", runtime.ScopeWork, "red") {
		t.Errorf("a denied principal: %v", err)
	}
	var empty *Set
	if _, err := empty.Revalidate(id); reasonOf(err) != "TOKEN_UNKNOWN" || !empty.Empty() || empty.MayHave("x", runtime.ScopeWork, "red") || empty.MayCollide("x") {
		t.Errorf("without issuers: %v", err)
	}
}

// TestRead: the file, with its faults.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{func() jose.JSONWebKey { k := ecKey(t, "k"); return k.Public() }()}})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	jwks := write("jwks.json", string(keys))
	good := "issuers:\n- issuer: https://login.example.org\n  jwks: " + jwks +
		"\n  audience: [pawl]\n  leeway: 10s\n  scopes: {claim: scope, map: {run: [\"runs:write\"]}}\n  namespaces: {fixed: [red]}\n"
	list, err := Read(write("good", good))
	if err != nil {
		t.Fatal(err)
	}
	set, err := NewSet(list, nil, func() {})
	if err != nil || set.Empty() || list[0].Leeway != 10*time.Second {
		t.Fatalf("%+v, %v", list, err)
	}
	for text, want := range map[string]string{
		"issuers: []":           "there is none",
		"issuers: [{isuer: x}]": "isuer",
		strings.Replace(good, "https://login", "http://login", 1) + "  algorithms: [HS256]": `"HS256" is none of`,
		strings.Replace(good, "jwks: "+jwks, "jwks: http://login.example.org/k", 1):         "want https",
		strings.Replace(good, "jwks: "+jwks, "jwks: "+jwks+"x", 1):                          "no such file",
		strings.Replace(good, "[pawl]", "[]", 1):                                            "audience is required",
		strings.Replace(good, "10s", "10m", 1):                                              "leeway 10m",
		strings.Replace(good, "runs:write", "runs:writ", 1):                                 `unknown scope "runs:writ"`,
		strings.Replace(good, "{fixed: [red]}", "{}", 1):                                    "exactly one of",
		strings.Replace(good, "{fixed: [red]}", "{fixed: [Red]}", 1):                        `"Red" is no name`,
		strings.Replace(good, "{fixed: [red]}", "{all: true, claim: x}", 1):                 "exactly one of",
		good + "  prefix: \"link:\"":                                                        "prefix",
		good + "  prefix: \"schedule:\"":                                                    "prefix",
		good + "  prefix: \"cert:\"":                                                        "prefix",
		good + strings.TrimPrefix(good, "issuers:\n"):                                       "occurs twice in the file",
	} {
		list, err := Read(write("bad", text))
		if err == nil {
			_, err = NewSet(list, nil, func() {})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nwant %q: %v", text, want, err)
		}
	}
}

// FuzzKeys: no answer of an issuer is more than refused.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"oct","k":"c2VjcmV0"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := parseKeys(raw)
		for _, key := range keys {
			if !usable(&key.JSONWebKey) {
				t.Fatalf("%v was taken", key)
			}
		}
		if err == nil && len(keys) == 0 {
			t.Fatal("neither keys nor an error")
		}
	})
}
