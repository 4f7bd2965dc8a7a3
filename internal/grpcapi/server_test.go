package grpcapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
)

// authority is a certificate authority of one test.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes NAME.pem and NAME.key.
func (a *authority) sign(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "EC PRIVATE KEY", raw)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// client trusts the authority and shows a certificate unless name is "".
func (a *authority) client(name string) *tls.Config {
	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	conf.RootCAs.AddCert(a.cert)
	if name != "" {
		cert, err := tls.LoadX509KeyPair(a.path(name+".pem"), a.path(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf
}

func dialTo(t testing.TB, target string, creds credentials.TransportCredentials) pawlv1.RunServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pawlv1.NewRunServiceClient(conn)
}

func list(ctx context.Context, runs pawlv1.RunServiceClient) error {
	_, err := runs.ListRuns(ctx, &pawlv1.ListRunsRequest{})
	return err
}

func TestTCPAndUnixSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "pawl.sock")
	r := newRig(t, func(c *Config, _ *services.Config) { c.Listen, c.Socket = "127.0.0.1:0", socket })
	ctx := testContext(t)
	for _, target := range []string{r.server.Addr(), "unix://" + socket} {
		if err := list(ctx, dialTo(t, target, insecure.NewCredentials())); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{})
	socket := filepath.Join(t.TempDir(), "pawl.sock")
	r := newRig(t, withTokens, func(c *Config, _ *services.Config) {
		c.Listen, c.Socket = "127.0.0.1:0", socket
		c.TLSCert, c.TLSKey = a.path("server.pem"), a.path("server.key")
	})
	ctx := testContext(t)
	if err := list(withToken(ctx, "runs:read"), dialTo(t, r.server.Addr(), credentials.NewTLS(a.client("")))); err != nil {
		t.Error(err)
	}
	if err := list(ctx, dialTo(t, r.server.Addr(), insecure.NewCredentials())); status.Code(err) != codes.Unavailable {
		t.Errorf("plain text: %v", err)
	}
	// The socket is guarded by its file mode and stays plain; tokens hold there too.
	plain := dialTo(t, "unix://"+socket, insecure.NewCredentials())
	if err := list(withToken(ctx, "runs:read"), plain); err != nil {
		t.Error(err)
	}
	wantError(t, list(ctx, plain), codes.Unauthenticated, "TOKEN_MISSING")
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{})
	a.sign("builder", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	r := newRig(t, func(c *Config, _ *services.Config) {
		c.Listen, c.TLSCert, c.TLSKey, c.TLSClientCA = "127.0.0.1:0", a.path("server.pem"), a.path("server.key"), a.path("ca.pem")
		c.Certificates = []auth.Certificate{{Name: "cert:builder", Scopes: runtime.ScopeRunsWrite | runtime.ScopePacksWrite}}
	})
	ctx := testContext(t)
	if err := list(ctx, dialTo(t, r.server.Addr(), credentials.NewTLS(a.client("")))); status.Code(err) != codes.Unavailable {
		t.Errorf("without certificate: %v", err)
	}
	wantError(t, list(ctx, r.runs), codes.Unauthenticated, "CERTIFICATE_MISSING")
	r.registerAs(ctx, a.client("builder"))
	started, err := dialTo(t, r.server.Addr(), credentials.NewTLS(a.client("builder"))).StartRun(ctx, startRequest())
	if err != nil || started.GetRecord().GetPrincipal() != "cert:builder" {
		t.Fatalf("StartRun %v, %v", started, err)
	}
}

// TestKeepalive: the clients of this product ping every 20 s while idle; that
// it holds for minutes is shown by the tests of the clients.
func TestKeepalive(t *testing.T) {
	t.Parallel()
	const clientPing = 20 * time.Second
	if enforcement.MinTime >= clientPing || !enforcement.PermitWithoutStream {
		t.Errorf("idle clients are sent away: %+v", enforcement)
	}
	if pings.Time != 30*time.Second || pings.Timeout != 10*time.Second {
		t.Errorf("pings %+v", pings)
	}
}

func TestMessageLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config, _ *services.Config) { c.MaxMessageBytes = 64 << 10 })
	ctx := testContext(t)
	turn := r.start(ctx).GetTurn()
	_, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{
		RunId: turn.GetRunId(), Event: "Again", Artifacts: []*pawlv1.ArtifactWrite{text("note", strings.Repeat("x", 65<<10))},
	})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "65536") {
		t.Fatalf("error %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	engine := newRig(t).engine
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{})
	tests := []struct {
		name string
		conf Config
		want []string
	}{
		{"no engine", Config{}, []string{"runtime is required"}},
		{"all at once", Config{Runtime: engine, MaxMessageBytes: -1, RequestsPerSecond: -1, MaxStreams: -1, HTTPOrigins: []string{"*"}, HTTPHosts: []string{"a/b"}},
			[]string{"message_bytes -1", "requests_per_second -1", "streams -1", `http_origin "*"`, `http_host "a/b"`}},
		{"address", Config{Runtime: engine, Listen: "0.0.0.0:0"}, []string{"not a loopback address", "insecure_bind"}},
		{"gateway address", Config{Runtime: engine, HTTP: "0.0.0.0:0"}, []string{`http "0.0.0.0:0"`}},
		{"certificate without key", Config{Runtime: engine, TLSCert: "x"}, []string{"go together"}},
		{"no certificate", Config{Runtime: engine, TLSCert: "x", TLSKey: "y"}, []string{"tls_cert, tls_key"}},
		{"client CA alone", Config{Runtime: engine, TLSClientCA: "x"}, []string{"tls_client_ca needs"}},
		{"client CA absent", Config{Runtime: engine, TLSCert: a.path("server.pem"), TLSKey: a.path("server.key"), TLSClientCA: "x"}, []string{"tls_client_ca"}},
		{"client CA that is none", Config{Runtime: engine, TLSCert: a.path("server.pem"), TLSKey: a.path("server.key"), TLSClientCA: a.path("server.key")}, []string{"no PEM certificate"}},
		{"token", Config{Runtime: engine, Tokens: []auth.Token{{Principal: "x", Secret: "short", Scopes: runtime.ScopeWork}}}, []string{"at least 16"}},
		{"no scope", Config{Runtime: engine, Tokens: []auth.Token{{Principal: "x", Secret: goodSecret}}}, []string{"no scope"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := New(tt.conf)
			if err == nil {
				s.stop()
				t.Fatal("it was taken")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in %v", want, err)
				}
			}
		})
	}
}

// TestAddressInUse: what was bound before the fault is released.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	engine := newRig(t).engine
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	socket := filepath.Join(t.TempDir(), "s")
	if _, err := New(Config{Runtime: engine, Socket: socket, HTTP: busy.Addr().String()}); err == nil || !strings.Contains(err.Error(), "http") {
		t.Fatalf("error %v", err)
	}
	ln, err := auth.ListenUnix(socket)
	if err != nil {
		t.Fatalf("the socket was not released: %v", err)
	}
	ln.Close()
}

// TestServeReportsAListenersError: a server that lost its port says so.
func TestServeReportsAListenersError(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Runtime: newRig(t).engine, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.tcp.Close()
	if err := s.Serve(); err == nil {
		t.Fatal("no error")
	}
}

// TestShutdownCutsOff: a call that outlives the drain time is cut off, even if
// its commit hangs.
func TestShutdownCutsOff(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	r.store.Hold()
	answered := make(chan error, 1)
	go func() {
		_, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken()})
		answered <- err
	}()
	r.store.AwaitHeld(1)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.server.Shutdown(gone); err == nil {
		t.Error("Shutdown says that all ended well")
	}
	if err := <-answered; err == nil {
		t.Error("the call was answered")
	}
	r.store.Sync()
}

// TestShutdownWaitsForCalls: one that was accepted is answered.
func TestShutdownWaitsForCalls(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	r.store.Hold()
	answered := make(chan error, 1)
	go func() {
		_, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken()})
		answered <- err
	}()
	r.store.AwaitHeld(1)
	stopped := make(chan error, 1)
	go func() { stopped <- r.server.Shutdown(ctx) }()
	<-r.server.draining
	r.store.Sync()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestShutdownDoesNotWaitForReaders: neither for one that never reads nor for a
// health watch, which lasts as long as its caller likes.
func TestShutdownDoesNotWaitForReaders(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	stuck := r.stream(ctx, &pawlv1.StreamTransitionsRequest{RunId: turn.GetRunId(), Follow: true})
	next(t, stuck)
	for range 8 {
		turn = r.emit(ctx, turn, "Again", text("note", strings.Repeat("x", 60<<10))).GetTurn()
	}
	watch, err := healthpb.NewHealthClient(r.conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}
