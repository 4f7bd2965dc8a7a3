package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	g := &guard{
		cfg: Config{
			Hosts: []string{"pawl.internal", "10.0.0.7:8443"}, Origins: []string{"https://app.example"}, MaxBody: 1 << 10,
			Refused: func(context.Context, *status.Status) {},
		},
		next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
	}
	const passed = http.StatusTeapot
	tests := []struct {
		name, method, host, origin, kind string
		want                             int
		reason                           string
	}{
		{name: "loopback", method: "GET", host: "127.0.0.1:7292", want: passed},
		{name: "loopback 6", method: "GET", host: "[::1]:7292", want: passed},
		{name: "localhost", method: "GET", host: "LOCALHOST:1", want: passed},
		{name: "configured name", method: "GET", host: "pawl.internal:9", want: passed},
		{name: "configured host and port", method: "GET", host: "10.0.0.7:8443", want: passed},
		{name: "other port", method: "GET", host: "10.0.0.7:8444", want: 403, reason: "HOST_NOT_ALLOWED"},
		{name: "rebound name", method: "GET", host: "evil.example:7292", want: 403, reason: "HOST_NOT_ALLOWED"},
		{name: "loopback in a name", method: "GET", host: "127.0.0.1.evil.example", want: 403, reason: "HOST_NOT_ALLOWED"},
		{name: "no host", method: "GET", host: "", want: 403, reason: "HOST_NOT_ALLOWED"},
		{name: "listed origin", method: "GET", host: "localhost", origin: "https://app.example", want: passed},
		{name: "own page", method: "POST", host: "localhost:7292", origin: "http://localhost:7292", kind: "application/json", want: passed},
		{name: "own page under another name", method: "POST", host: "127.0.0.1:7292", origin: "http://localhost:7292", kind: "application/json", want: 403, reason: "ORIGIN_NOT_ALLOWED"},
		{name: "own page on another port", method: "GET", host: "localhost:7292", origin: "http://localhost:7293", want: 403, reason: "ORIGIN_NOT_ALLOWED"},
		{name: "own page in another scheme", method: "GET", host: "localhost:7292", origin: "https://localhost:7292", want: 403, reason: "ORIGIN_NOT_ALLOWED"},
		{name: "page of a rebound name", method: "GET", host: "evil.example", origin: "http://evil.example", want: 403, reason: "HOST_NOT_ALLOWED"},
		{name: "other origin", method: "GET", host: "localhost", origin: "https://evil.example", want: 403, reason: "ORIGIN_NOT_ALLOWED"},
		{name: "null origin", method: "POST", host: "localhost", origin: "null", kind: "application/json", want: 403, reason: "ORIGIN_NOT_ALLOWED"},
		{name: "preflight", method: "OPTIONS", host: "localhost", origin: "https://app.example", want: 204},
		{name: "preflight of another", method: "OPTIONS", host: "localhost", origin: "https://evil.example", want: 403, reason: "ORIGIN_NOT_ALLOWED"},
		{name: "JSON", method: "POST", host: "localhost", kind: "application/json", want: passed},
		{name: "JSON with charset", method: "POST", host: "localhost", kind: "application/json; charset=UTF-8", want: passed},
		{name: "JSON in another charset", method: "POST", host: "localhost", kind: "application/json; charset=utf-7", want: 415, reason: "CONTENT_TYPE"},
		{name: "form", method: "POST", host: "localhost", kind: "text/plain", want: 415, reason: "CONTENT_TYPE"},
		{name: "form that mentions JSON", method: "POST", host: "localhost", kind: "text/plain; application/json", want: 415, reason: "CONTENT_TYPE"},
		{name: "nothing said", method: "POST", host: "localhost", want: 415, reason: "CONTENT_TYPE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tt.method, "/v1/runs", strings.NewReader("{}"))
			r.Host = tt.host
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			if tt.kind != "" {
				r.Header.Set("Content-Type", tt.kind)
			}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != tt.want || !strings.Contains(w.Body.String(), tt.reason) {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if allowed := w.Header().Get("Access-Control-Allow-Origin"); (allowed != "") != (tt.origin == "https://app.example") {
				t.Fatalf("Access-Control-Allow-Origin %q", allowed)
			}
		})
	}
}

func TestGuardRefusesTwoOrigins(t *testing.T) {
	t.Parallel()
	g := &guard{cfg: Config{Origins: []string{"https://app.example"}}}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	r.Header["Origin"] = []string{"https://app.example", "https://evil.example"}
	if refusal := g.refuse(r); refusal == nil || refusal.Reason != "ORIGIN_NOT_ALLOWED" {
		t.Fatalf("refusal %v", refusal)
	}
}

func TestOriginAndHostSyntax(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]bool{
		"https://a.example": true, "http://localhost:3000": true,
		"a.example": false, "https://a.example/": false, "*": false, "null": false, "": false,
	} {
		if ValidOrigin(origin) != want {
			t.Errorf("ValidOrigin(%q) = %v", origin, !want)
		}
	}
	for host, want := range map[string]bool{
		"a.example": true, "a.example:80": true, "10.0.0.7": true, "[fd00::1]:80": true,
		"https://a.example": false, "a/b": false, "": false, ":80": false,
	} {
		if ValidHost(host) != want {
			t.Errorf("ValidHost(%q) = %v", host, !want)
		}
	}
}
