package grpcapi

import (
	"crypto/x509"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

// TestGRPCAtAPortForHTTP: a gRPC client that uses the address of a port for HTTP gets an error with the right
// address. This holds for a unary call and for a stream, with TLS and without.
func TestGRPCAtAPortForHTTP(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{})
	socket := filepath.Join(t.TempDir(), "pawl.sock")
	ports := func(c *Config, _ *services.Config) {
		c.HTTP, c.Metrics, c.MetricsPage = "127.0.0.1:0", "127.0.0.1:0", http.NotFoundHandler()
	}
	loopback := func(c *Config, _ *services.Config) { c.Listen = "127.0.0.1:0" }
	everywhere := func(c *Config, _ *services.Config) { c.Listen, c.InsecureBind = "0.0.0.0:0", true }
	onSocket := func(c *Config, _ *services.Config) { c.Listen, c.Socket = "", socket }
	secure := func(c *Config, _ *services.Config) {
		c.TLSCert, c.TLSKey = a.path("server.pem"), a.path("server.key")
	}
	creds := insecure.NewCredentials()
	bound := func(s *Server) string { return s.Addr() }
	for name, test := range map[string]struct {
		options []func(*Config, *services.Config)
		creds   credentials.TransportCredentials
		where   func(*Server) string
	}{
		"loopback":   {[]func(*Config, *services.Config){loopback}, creds, bound},
		"TLS":        {[]func(*Config, *services.Config){loopback, secure}, credentials.NewTLS(a.client("")), bound},
		"everywhere": {[]func(*Config, *services.Config){everywhere}, creds, func(s *Server) string { return "127.0.0.1:" + portOf(t, s.Addr()) }},
		"socket":     {[]func(*Config, *services.Config){onSocket}, creds, func(*Server) string { return "unix:" + socket }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, append(test.options, ports)...)
			for port, address := range map[string]string{"HTTP": r.server.HTTPAddr(), "metrics": r.server.MetricsAddr()} {
				want := address + " is the " + port + " port of the sidecar; gRPC is at " + test.where(r.server)
				wantPointed(t, address, test.creds, want)
			}
		})
	}
}

// wantPointed makes a unary call and opens a worker's stream at an address.
func wantPointed(t *testing.T, address string, creds credentials.TransportCredentials, want string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx := testContext(t)
	_, unary := pawlv1.NewRunServiceClient(conn).ListRuns(ctx, &pawlv1.ListRunsRequest{})
	work, err := pawlv1.NewWorkerServiceClient(conn).Work(ctx)
	if err == nil {
		_, err = work.Recv()
	}
	for _, got := range []error{unary, err} {
		wantError(t, got, codes.InvalidArgument, "HTTP_PORT")
		if text := status.Convert(got).Message(); text != "HTTP_PORT: "+want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestPlainHTTP2IsForGRPCAlone: any other request over HTTP/2 without TLS is refused.
func TestPlainHTTP2IsForGRPCAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, withGateway)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + r.server.HTTPAddr() + "/v1/runs")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusHTTPVersionNotSupported {
		t.Fatalf("%d", resp.StatusCode)
	}
}
