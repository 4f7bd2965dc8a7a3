package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// issuerOf is a token issuer that publishes a key and signs with it.
type issuerOf struct {
	t   *testing.T
	key *ecdsa.PrivateKey
	url string
}

func newIssuer(t *testing.T) *issuerOf {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuerOf{t: t, key: key}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "openid-configuration") {
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.url, "jwks_uri": i.url + "/keys"})
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

// token returns a token for a name with scopes and a team, which lasts so long.
func (i *issuerOf) token(name, scopes, team string, lasts time.Duration) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": i.url, "sub": name, "aud": "pawl", "exp": float64(time.Now().Add(lasts).UnixMilli()) / 1000, "scope": scopes, "team": team,
	}).Serialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

// TestIssuersTokens: a JSON web token is a principal over every port of the real process, with the
// rights of the operator's rules, until it expires.
func TestIssuersTokens(t *testing.T) {
	t.Parallel()
	issuer := newIssuer(t)
	c := settings(t)
	c.Namespaces, c.HTTP = []string{"red", "blue"}, "127.0.0.1:0"
	c.Packs = []string{packAt(t)}
	c.OIDCFile = writeFile(t, "oidc.yaml", `issuers:
- issuer: `+issuer.url+`
  audience: [pawl]
  leeway: 1ns
  scopes: {claim: scope, map: {drive: ["runs:write", "runs:read"], look: ["runs:read"]}}
  namespaces: {claim: team}
`)
	r := &operationsRig{t: t, s: operating(t, c)}
	r.conn = dial(t, r.s.ready.GRPC)
	caller, err := r.tenant(issuer.token("ann", "drive admin", "red", time.Hour)).caller()
	if err != nil || caller.GetPrincipal() != "oidc:ann" || strings.Join(caller.GetScopes(), " ") != "runs:write runs:read" || strings.Join(caller.GetNamespaces(), " ") != "red" {
		t.Fatalf("%v, %v", caller, err)
	}
	readerToken := issuer.token("bob", "look", "red default", time.Hour)
	gateway := "http://" + r.s.ready.HTTP
	for where, want := range map[string]string{
		"GET " + gateway + "/v1/runs":                     "",
		"GET " + gateway + "/v1/runs?namespace=blue":      "NAMESPACE_NOT_FOUND",
		"GET " + gateway + "/a2a/default:team/lead/tasks": "",
		"GET " + gateway + "/a2a/blue:team/lead/tasks":    "NAMESPACE_NOT_FOUND",
		"GET " + gateway + "/a2a/team/lead/tasks":         "AGENT_NOT_FOUND",
		"POST " + gateway + "/v1/runs":                    "SCOPE_MISSING",
		"POST " + gateway + "/a2a/team/lead/message:send": "SCOPE_MISSING",
	} {
		verb, path, _ := strings.Cut(where, " ")
		if got := r.http(verb, path, map[bool]string{true: "{}"}[verb == "POST"], readerToken); got != want {
			t.Errorf("%s: %q, want %q", where, got, want)
		}
	}
	for _, path := range []string{"/mcp", "/mcp/blue"} {
		at := gateway + "/.well-known/oauth-protected-resource" + path
		refused, err := http.Post(gateway+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = refused.Body.Close()
		if got, want := refused.Header.Get("WWW-Authenticate"), `Bearer resource_metadata="`+at+`"`; got != want || refused.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d, %q, want %q", path, refused.StatusCode, got, want)
		}
		answer, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		var metadata struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		err = json.NewDecoder(answer.Body).Decode(&metadata)
		_ = answer.Body.Close()
		if err != nil || metadata.Resource != gateway+path || strings.Join(metadata.Servers, " ") != issuer.url || strings.Join(metadata.Scopes, " ") != "drive look" {
			t.Errorf("%s: %+v, %v", at, metadata, err)
		}
	}
	if got := r.http("GET", gateway+"/v1/runs", "", readerToken[:len(readerToken)-6]+"AAAAAA"); got != "TOKEN_UNKNOWN" {
		t.Errorf("a forged token: %q", got)
	}
	// A stream ends when its token expires. If the stream was not opened in time, the test tries
	// again with a longer life.
	for lasts := 2 * time.Second; ; lasts *= 2 {
		stream, err := r.tenant(issuer.token("eve", "look", "red", lasts)).follow()
		opened := false
		for err == nil {
			header, _ := stream.Header()
			opened = header != nil
			_, err = stream.Recv()
		}
		if got := reasonOfError(err); got != "TOKEN_EXPIRED" {
			t.Fatalf("a stream whose token ends: %v", err)
		}
		if opened || lasts > time.Minute {
			break
		}
	}
}

func (x *tenant) caller() (*pawlv1.GetCallerResponse, error) {
	return x.runs.GetCaller(x.ctx, &pawlv1.GetCallerRequest{})
}

func (x *tenant) follow() (pawlv1.RunService_StreamTransitionsClient, error) {
	return x.runs.StreamTransitions(x.ctx, &pawlv1.StreamTransitionsRequest{Follow: true})
}
