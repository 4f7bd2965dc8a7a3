package oidc

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// issuer answers everything with the same words.
type issuer string

func (i issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(i))), Request: r}, nil
}

// TestIssuersHaveOneReading: what an issuer says of itself and its keys is read by exact names,
// and a member that is there twice is refused. The keys themselves go-jose reads, whose reader
// (go-jose/json) does the same.
func TestIssuersHaveOneReading(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"issuer":"https://a.example","jwks_uri":"https://a.example/keys","JWKS_URI":"https://b.example/keys"}`: "https://a.example/keys",
		`{"issuer":"https://a.example","jwks_uri":"https://a.example/keys","jwks_uri":"https://b.example/keys"}`: "",
		`{"issuer":"https://b.example","Issuer":"https://a.example","jwks_uri":"https://b.example/keys"}`:        "",
		`{"issuer":"https://a.example","jwks_uri":"https://a.example/keys","scopes_supported":["openid"]}`:       "https://a.example/keys",
	} {
		f := &fetcher{client: &http.Client{Transport: issuer(body)}, issuer: "https://a.example"}
		if got, err := f.discover(t.Context()); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", body, got, err, want)
		}
	}
	const (
		one = `{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
		two = `{"kty":"OKP","crv":"Ed25519","kid":"2","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	)
	for body, want := range map[string]string{
		`{"keys":[` + one + `],"Keys":[` + two + `]}`:                    "1",
		`{"keys":[` + one + `],"keys":[` + two + `]}`:                    "",
		`{"keys":[` + strings.Replace(one, `}`, `,"kid":"2"}`, 1) + `]}`: "",
		`{"keys":[` + strings.Replace(one, `}`, `,"KID":"2"}`, 1) + `]}`: "1",
	} {
		keys, err := parseKeys([]byte(body))
		if _, ok := keys[want]; ok != (want != "") || (err == nil) != ok {
			t.Errorf("%s: %v, %v, want %q", body, keys, err, want)
		}
	}
}
