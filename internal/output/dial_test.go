package output

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// listening serves health on a listener and tells what authorization calls bring.
func listening(t *testing.T, l net.Listener, options ...grpc.ServerOption) <-chan []string {
	t.Helper()
	brought := make(chan []string, 1)
	server := grpc.NewServer(append(options, grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			brought <- metadata.ValueFromIncomingContext(ctx, "authorization")
			return handle(ctx, req)
		}))...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return brought
}

func listen(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask makes one call and returns its error.
func ask(t *testing.T, target Target) error {
	t.Helper()
	conn, err := Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

func TestDialBringsTheToken(t *testing.T) {
	t.Parallel()
	tcp := listen(t, "tcp", "127.0.0.1:0")
	tokens := listening(t, tcp)
	if err := ask(t, Target{Addr: tcp.Addr().String(), Token: "secret"}); err != nil {
		t.Fatal(err)
	}
	if got := <-tokens; len(got) != 1 || got[0] != "Bearer secret" {
		t.Errorf("authorization %v", got)
	}
	path := filepath.Join(t.TempDir(), "s")
	tokens = listening(t, listen(t, "unix", path))
	if err := ask(t, Target{Addr: "unix:" + path}); err != nil {
		t.Fatal(err)
	}
	if got := <-tokens; len(got) != 0 {
		t.Errorf("authorization without a token: %v", got)
	}
}

func TestDialChecksTheCertificate(t *testing.T) {
	t.Parallel()
	mine, authority := certificate(t)
	_, stranger := certificate(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	listening(t, l, grpc.Creds(credentials.NewServerTLSFromCert(&mine)))
	if err := ask(t, Target{Addr: l.Addr().String(), CA: authority}); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	if err := ask(t, Target{Addr: l.Addr().String(), CA: stranger}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with a stranger's: %v", err)
	}
}

// TestDialBringsTheCertificate: a sidecar that requires a certificate of the caller can be reached with --cert and --key.
func TestDialBringsTheCertificate(t *testing.T) {
	t.Parallel()
	mine, authority := certificate(t)
	own, file := certificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed(t, own))
	l := listen(t, "tcp", "127.0.0.1:0")
	listening(t, l, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{mine}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})))
	target := Target{Addr: l.Addr().String(), CA: authority}
	if err := target.Unreachable(ask(t, target)); err == nil || !strings.Contains(err.Error(), "name it with --cert and --key") {
		t.Errorf("without a certificate: %v", err)
	}
	stranger, strangersFile := certificate(t)
	strangersKey, err := x509.MarshalPKCS8PrivateKey(stranger.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	target.Cert, target.Key = strangersFile, filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(target.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: strangersKey}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := target.Unreachable(ask(t, target)); err == nil || !strings.Contains(err.Error(), "of --cert") {
		t.Errorf("with a stranger's certificate: %v", err)
	}
	// The data that a call sends can arrive before the alert of the server is read; the call then ends in a broken pipe.
	broken := status.Error(codes.Unavailable, "write tcp: write: broken pipe")
	if err := target.Unreachable(broken); err == nil || !strings.Contains(err.Error(), "of --cert") {
		t.Errorf("with a stranger's certificate, and a broken pipe: %v", err)
	}
	target.Cert, target.Key = file, keyFile
	if err := ask(t, target); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	if err := target.Unreachable(broken); !errors.Is(err, broken) {
		t.Errorf("with a certificate, and a broken pipe: %v", err)
	}
}

func parsed(t *testing.T, cert tls.Certificate) *x509.Certificate {
	t.Helper()
	out, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		target Target
		says   string
	}{
		"no file":        {Target{Addr: "127.0.0.1:1", CA: empty + "x"}, "no such file"},
		"no certificate": {Target{Addr: "127.0.0.1:1", CA: empty}, "holds no certificate"},
		"no key":         {Target{Addr: "127.0.0.1:1", CA: empty, Cert: empty}, "--cert and --key need each other"},
		"no TLS":         {Target{Addr: "127.0.0.1:1", Cert: empty, Key: empty}, "--cert needs TLS"},
		"bad address":    {Target{Addr: "unix:%zz\x7f"}, "address"},
	} {
		if _, err := Dial(tc.target); err == nil || ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// certificate makes one for 127.0.0.1 that signs itself, and its PEM file.
func certificate(t *testing.T) (cert tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// TestUnreachable: what people meet is said in words, with the address and what to do; an
// answer of a sidecar stays as it is.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	target := Target{Addr: "box:7291"}
	for text, says := range map[string]string{
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`:                                            "nothing listens there",
		`connection error: desc = "transport: Error while dialing: dial unix /x: connect: no such file or directory"`:                                             "no such socket",
		`connection error: desc = "transport: Error while dialing: dial tcp: lookup box: no such host"`:                                                           "no host has that name",
		`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`:                             "leave --ca out",
		`connection error: desc = "error reading server preface: EOF"`:                                                                                            "name the authority of its certificate with --ca",
		`connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority"`: "another authority",
		`connection error: desc = "something new"`: "something new",
	} {
		err := target.Unreachable(status.Error(codes.Unavailable, text))
		if err == nil || ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "at box:7291: ") || !strings.Contains(err.Error(), says) || strings.Contains(ProblemOf(err).Message, "desc =") {
			t.Errorf("%s\n%v", text, err)
		}
	}
	drained, err := status.New(codes.Unavailable, "draining").WithDetails(&errdetails.ErrorInfo{Reason: "DRAINING"})
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []error{nil, drained.Err(), status.Error(codes.NotFound, "none"), errors.New("mine")} {
		if got := target.Unreachable(answer); !errors.Is(got, answer) {
			t.Errorf("%v became %v", answer, got)
		}
	}
}
