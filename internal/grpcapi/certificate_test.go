package grpcapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
)

// callerRights are the scopes of the certificates in the tests.
const callerRights = runtime.ScopeRunsRead | runtime.ScopeRunsWrite | runtime.ScopePacksWrite

// withCertificates makes the server ask callers for certificates: those of alice and bob have rights, the
// third one has none.
func withCertificates(a *authority) func(*Config, *services.Config) {
	a.sign("server", &x509.Certificate{})
	for _, name := range []string{"alice", "bob", "stranger"} {
		a.sign(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	return func(c *Config, _ *services.Config) {
		c.Listen, c.HTTP = "127.0.0.1:0", "127.0.0.1:0"
		c.TLSCert, c.TLSKey, c.TLSClientCA = a.path("server.pem"), a.path("server.key"), a.path("ca.pem")
		c.Certificates = []auth.Certificate{{Name: "cert:alice", Scopes: callerRights}, {Name: "cert:bob", Scopes: callerRights}}
	}
}

// dialTLS returns a connection with a client certificate.
func (r *rig) dialTLS(conf *tls.Config) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(r.server.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(conf)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// registerAs registers the pack over a connection with a client certificate.
func (r *rig) registerAs(ctx context.Context, conf *tls.Config) {
	r.t.Helper()
	if _, err := pawlv1.NewPackServiceClient(r.dialTLS(conf)).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: loopPack}); err != nil {
		r.t.Fatalf("RegisterPack: %v", err)
	}
}

// post makes a call to the gateway with a client certificate.
func (r *rig) post(ctx context.Context, conf *tls.Config, path string, req, resp proto.Message, header ...string) (status int) {
	r.t.Helper()
	method, body := http.MethodGet, []byte(nil)
	if req != nil {
		method = http.MethodPost
		body, _ = protojson.Marshal(req)
	}
	call, err := http.NewRequestWithContext(ctx, method, "https://"+r.server.HTTPAddr()+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	call.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		call.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	defer client.CloseIdleConnections()
	answer, err := client.Do(call)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if answer.StatusCode == http.StatusOK {
		err = protojson.Unmarshal(text, resp)
	}
	if err != nil {
		r.t.Fatalf("%v in %s", err, text)
	}
	return answer.StatusCode
}

// TestCertificateIsTheCaller: the holder of a certificate is the same principal over gRPC and over the
// gateway. Each principal has its own ids, webhooks and consumers.
func TestCertificateIsTheCaller(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	var to sends
	r, ctx := newRig(t, withCertificates(a), withSends(&to)), testContext(t)
	r.registerAs(ctx, a.client("alice"))
	start := startRequest()
	start.RequestId = "job-1"
	runs := map[string]bool{}
	for _, principal := range []string{"alice", "bob"} {
		conf := a.client(principal)
		over := pawlv1.NewRunServiceClient(r.dialTLS(conf))
		caller, err := over.GetCaller(ctx, &pawlv1.GetCallerRequest{})
		if err != nil || caller.GetPrincipal() != "cert:"+principal {
			t.Fatalf("over gRPC %s is %v, %v", principal, caller, err)
		}
		web := &pawlv1.GetCallerResponse{}
		if code := r.post(ctx, conf, "/v1/caller", nil, web); code != http.StatusOK || !proto.Equal(web, caller) {
			t.Errorf("over the gateway %s is %v (%d), over gRPC %v", principal, web, code, caller)
		}
		first := &pawlv1.StartRunResponse{}
		if code := r.post(ctx, conf, "/v1/runs", start, first); code != http.StatusOK || first.GetDuplicate() {
			t.Fatalf("StartRun of %s: %d %v", principal, code, first)
		}
		again, err := over.StartRun(ctx, start)
		if err != nil || !again.GetDuplicate() || again.GetRun().GetRunId() != first.GetRun().GetRunId() {
			t.Errorf("the same id over gRPC is %v, %v", again, err)
		}
		runs[first.GetRun().GetRunId()] = true
	}
	if len(runs) != 2 {
		t.Errorf("one id of two callers is %d runs", len(runs))
	}
	hook := &pawlv1.PutWebhookRequest{Url: "https://example.com/", Secret: secretText(24)}
	if code := r.post(ctx, a.client("alice"), "/v1/webhooks/mine", hook, &pawlv1.PutWebhookResponse{}); code != http.StatusOK {
		t.Fatalf("PutWebhook: %d", code)
	}
	for principal, want := range map[string]int{"alice": 1, "bob": 0} {
		got := &pawlv1.ListWebhooksResponse{}
		if code := r.post(ctx, a.client(principal), "/v1/webhooks", nil, got); code != http.StatusOK || len(got.GetWebhooks()) != want {
			t.Errorf("%s sees %v (%d)", principal, got, code)
		}
	}
	for _, path := range []string{"/v1/runs", "/v1/transitions:stream"} {
		if code := r.post(ctx, a.client("stranger"), path, nil, nil, "Accept", "text/event-stream"); code != http.StatusForbidden {
			t.Errorf("%s of a certificate without rights: %d", path, code)
		}
	}
}

// TestNobodyNamesAnotherCertificate: a caller cannot name another certificate in its metadata or its headers.
// Only the gateway can name its callers to the server.
func TestNobodyNamesAnotherCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	r, ctx := newRig(t, withCertificates(a)), testContext(t)
	alice := &auth.Identity{Names: []string{"cert:alice"}}
	for root := range r.server.auth.Current.Load().Certificates.Roots {
		alice.Roots = append(alice.Roots, root)
	}
	forged := metadata.NewOutgoingContext(ctx, alice.Metadata())
	got, err := pawlv1.NewRunServiceClient(r.dialTLS(a.client("bob"))).GetCaller(forged, &pawlv1.GetCallerRequest{})
	if err != nil || got.GetPrincipal() != "cert:bob" {
		t.Errorf("over gRPC: %v, %v", got, err)
	}
	web := &pawlv1.GetCallerResponse{}
	code := r.post(ctx, a.client("bob"), "/v1/caller", nil, web,
		"Pawl-Name-Bin", "Y2VydDphbGljZQ", "Grpc-Metadata-Pawl-Name-Bin", "Y2VydDphbGljZQ", "Grpc-Metadata-Pawl-Root-Bin", "AA")
	if code != http.StatusOK || web.GetPrincipal() != "cert:bob" {
		t.Errorf("over the gateway: %d %v", code, web)
	}
}

func TestCertificateNames(t *testing.T) {
	t.Parallel()
	spiffe, err := url.Parse("spiffe://example.org/ci")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cert x509.Certificate
		want []string
	}{
		{x509.Certificate{Subject: pkix.Name{CommonName: "Jane Doe"}}, []string{"cert:Jane Doe"}},
		{x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"ci.example.org"}, EmailAddresses: []string{"ci@example.org"}},
			[]string{"uri:spiffe://example.org/ci", "dns:ci.example.org", "email:ci@example.org"}},
		{x509.Certificate{Subject: pkix.Name{CommonName: "uri:spiffe://example.org/ci"}}, []string{"cert:uri:spiffe://example.org/ci"}},
		// What "cert:near" records of an answer in the name of "boss".
		{x509.Certificate{Subject: pkix.Name{CommonName: "near>boss"}, DNSNames: []string{"near"}}, []string{"dns:near"}},
		{x509.Certificate{Subject: pkix.Name{CommonName: "a\nb"}, DNSNames: []string{strings.Repeat("x", auth.MaxCertificateName+1), "\xff"}}, nil},
		{x509.Certificate{}, nil},
	} {
		if got := auth.CertificateNames(&tt.cert); !slices.Equal(got, tt.want) {
			t.Errorf("names %q, want %q", got, tt.want)
		}
	}
}

// TestCertificateRights: the first name that the operator lists is the principal. If the operator lists none
// of the names, the caller has only the rights of every certificate.
func TestCertificateRights(t *testing.T) {
	t.Parallel()
	root := [32]byte{1}
	scopes := map[string]runtime.Scopes{"dns:a": runtime.ScopeWork, "cert:b": runtime.ScopeRunsRead}
	all := map[string]runtime.Scopes{"dns:a": runtime.ScopeWork, auth.EveryCertificate: runtime.ScopeRunsRead}
	for _, tt := range []struct {
		scopes map[string]runtime.Scopes
		names  []string
		name   string
		want   runtime.Scopes
	}{
		{scopes, []string{"cert:x", "dns:a"}, "dns:a", runtime.ScopeWork},
		{scopes, []string{"cert:b", "dns:a"}, "cert:b", runtime.ScopeRunsRead},
		{scopes, []string{"cert:x", "dns:y"}, "cert:x", 0},
		{all, []string{"cert:x", "dns:a"}, "dns:a", runtime.ScopeWork | runtime.ScopeRunsRead},
		{all, []string{"cert:x"}, "cert:x", runtime.ScopeRunsRead},
		{all, []string{"cert:*"}, "cert:*", runtime.ScopeRunsRead},
		{nil, []string{"cert:x"}, "cert:x", 0},
	} {
		set := &auth.CertificateSet{Roots: map[[32]byte]bool{root: true}, Scopes: tt.scopes}
		p, err := set.Find(&auth.Identity{Roots: [][32]byte{root}, Names: tt.names})
		if err != nil || p.Name() != tt.name || p.Scopes != tt.want {
			t.Errorf("%v: %+v, %v; want %s with %s", tt.names, p, err, tt.name, tt.want)
		}
	}
	set := &auth.CertificateSet{Roots: map[[32]byte]bool{root: true}}
	if _, err := set.Find(&auth.Identity{Roots: [][32]byte{{2}}, Names: []string{"cert:x"}}); err == nil || !strings.Contains(err.Error(), "CERTIFICATE_REVOKED") {
		t.Errorf("another authority: %v", err)
	}
	if _, err := set.Find(&auth.Identity{Roots: [][32]byte{root}}); err == nil || !strings.Contains(err.Error(), "CERTIFICATE_UNNAMED") {
		t.Errorf("no name: %v", err)
	}
}

func TestReadCertificates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rights")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("# who\n\ncert:Jane Doe \t runs:read,work\n*\truns:read\n", 0o644)
	got, err := auth.ReadCertificates(path)
	want := []auth.Certificate{{Name: "cert:Jane Doe", Scopes: runtime.ScopeRunsRead | runtime.ScopeWork}, {Name: "*", Scopes: runtime.ScopeRunsRead}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, %v", got, err)
	}
	for text, says := range map[string]string{
		"# nobody\n": "no certificate in it", "cert:a\n": "line 1: 1 field", "cert:a read\nx\n": "unknown scope",
	} {
		write(text, 0o600)
		if _, err := auth.ReadCertificates(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	write("* runs:read\n", 0o646)
	if _, err := auth.ReadCertificates(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that others may write: %v", err)
	}
	root := &auth.Keys{Roots: map[[32]byte]bool{{}: true}}
	for _, bad := range [][]auth.Certificate{
		{{Name: "jane", Scopes: 1}}, {{Name: "cert:", Scopes: 1}}, {{Name: "cert:a"}}, {{Name: "cert:a", Scopes: 1}, {Name: "cert:a", Scopes: 2}},
	} {
		if _, err := auth.NewCertificateSet(root, bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	if _, err := auth.NewCertificateSet(nil, []auth.Certificate{{Name: "*", Scopes: 1}}); err == nil || !strings.Contains(err.Error(), "tls_client_ca") {
		t.Errorf("rights without an authority: %v", err)
	}
}

// TestRightsAreReplaced: certificates, their rights and their authority change while the server serves. A
// caller that loses its rights loses its streams. If the authority changes, calls and streams with a
// certificate of the old authority are refused.
func TestRightsAreReplaced(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	r, ctx := newRig(t, withCertificates(a)), testContext(t)
	alice, bob := pawlv1.NewRunServiceClient(r.dialTLS(a.client("alice"))), pawlv1.NewRunServiceClient(r.dialTLS(a.client("bob")))
	follow := func(runs pawlv1.RunServiceClient) grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse] {
		stream, err := runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Follow: true, FromNow: true})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	loses, keeps := follow(alice), follow(bob)
	rights := Rights{Certificates: []auth.Certificate{{Name: "cert:bob", Scopes: callerRights}}}
	if err := r.server.SetRights(rights); err != nil {
		t.Fatal(err)
	}
	_, err := loses.Recv()
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	wantError(t, list(ctx, alice), codes.PermissionDenied, "SCOPE_MISSING")
	if err := list(ctx, bob); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.path("ca.pem"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.server.SetRights(rights); err == nil || list(ctx, bob) != nil {
		t.Fatalf("a faulty file was taken: %v", err)
	}
	other := newAuthority(t)
	other.sign("bob", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	next, err := os.ReadFile(other.path("ca.pem"))
	if err == nil {
		err = os.WriteFile(a.path("ca.pem"), next, 0o600)
	}
	if err == nil {
		err = r.server.SetRights(rights)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = keeps.Recv()
	wantError(t, err, codes.Unauthenticated, "CERTIFICATE_REVOKED")
	wantError(t, list(ctx, bob), codes.Unauthenticated, "CERTIFICATE_REVOKED")
	conf := other.client("bob")
	conf.RootCAs = a.client("").RootCAs
	if err := list(ctx, pawlv1.NewRunServiceClient(r.dialTLS(conf))); err != nil {
		t.Fatalf("a certificate of the new authority: %v", err)
	}
}

// TestEveryListenerIsGuarded: a server does not listen on an address that is not a loopback address unless
// callers need a certificate or a token, or the configuration allows it explicitly. TLS alone does not
// suffice.
func TestEveryListenerIsGuarded(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{})
	page, engine := http.NotFoundHandler(), newRig(t).engine
	for _, listener := range []struct {
		name string
		set  func(*Config, string)
	}{
		{"listen", func(c *Config, at string) { c.Listen = at }},
		{"http", func(c *Config, at string) { c.HTTP = at }},
		{"metrics", func(c *Config, at string) { c.Metrics, c.MetricsPage = at, page }},
	} {
		for name, guard := range map[string]struct {
			set  func(*Config)
			open bool
		}{
			"nothing": {func(*Config) {}, false},
			"TLS":     {func(c *Config) { c.TLSCert, c.TLSKey = a.path("server.pem"), a.path("server.key") }, false},
			"client CA": {func(c *Config) {
				c.TLSCert, c.TLSKey, c.TLSClientCA = a.path("server.pem"), a.path("server.key"), a.path("ca.pem")
			}, true},
			"tokens": {func(c *Config) {
				c.Tokens = []auth.Token{{Principal: "x", Secret: goodSecret, Scopes: runtime.ScopeWork}}
			}, true},
			"insecure": {func(c *Config) { c.InsecureBind = true }, true},
		} {
			conf := Config{Runtime: engine}
			listener.set(&conf, "0.0.0.0:0")
			guard.set(&conf)
			s, err := New(conf)
			if err == nil {
				_ = s.release()
			}
			if guard.open != (err == nil) || err != nil && !strings.Contains(err.Error(), listener.name+` "0.0.0.0:0" is not a loopback address`) {
				t.Errorf("%s with %s: %v", listener.name, name, err)
			}
		}
	}
}

// TestMetricsListener: the listener for metrics checks the token and the host name of a caller, as every other
// listener does.
func TestMetricsListener(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pawl_runs 1") })
	r := newRig(t, withTokens, func(c *Config, _ *services.Config) {
		c.Metrics, c.MetricsPage, c.HTTPHosts = "127.0.0.1:0", page, []string{"pawl.example"}
	})
	get := func(host, token, path string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.server.MetricsAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+secretOf(token))
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for _, tt := range []struct {
		host, token, path string
		want              int
	}{
		{"", "runs:read", "/metrics", http.StatusOK},
		{"localhost:1", "admin", "/metrics", http.StatusOK},
		{"10.1.2.3:9464", "runs:read", "/metrics", http.StatusOK},
		{"[fd00::1]", "runs:read", "/metrics", http.StatusOK},
		{"pawl.example", "runs:read", "/metrics", http.StatusOK},
		{"evil.example", "runs:read", "/metrics", http.StatusForbidden},
		{"127.0.0.1.evil.example:80", "runs:read", "/metrics", http.StatusForbidden},
		{"", "", "/metrics", http.StatusUnauthorized},
		{"", "nobody", "/metrics", http.StatusUnauthorized},
		{"", "work", "/metrics", http.StatusForbidden},
		{"", "runs:read", "/v1/runs", http.StatusNotFound},
	} {
		if got := get(tt.host, tt.token, tt.path); got != tt.want {
			t.Errorf("Host %q, token %q, %s: %d, want %d", tt.host, tt.token, tt.path, got, tt.want)
		}
	}
}
