package output

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// maxAnswerBytes bounds one message from a server.
const maxAnswerBytes = 64 << 20

// alertTimeout bounds each step of the second connection after a failed call: the handshake, and the wait for an alert.
const alertTimeout = 2 * time.Second

// Target is the address of a sidecar, with the options for connecting to it.
type Target struct {
	// Addr is HOST:PORT or unix:PATH.
	Addr string
	// Token is a bearer token; "" = none.
	Token string
	// CA is a PEM file with the authority that signs the server's certificate; "" = the connection has no TLS.
	CA string
	// Cert and Key are PEM files with the certificate of the caller and its private key, for a sidecar that requires one. They need CA. "" =
	// the caller has none.
	Cert, Key string
	// Options are additional options of the connection.
	Options []grpc.DialOption
}

// refusals maps a part of a connection error of the library to a readable text with the cause and, if there is one, a remedy.
var refusals = []struct{ has, says string }{
	{"connection refused", "nothing listens there; start one with: pawl serve --data DIR"},
	{"no such file or directory", "there is no such socket; start one with: pawl serve --data DIR --socket PATH"},
	{"no such host", "no host has that name"},
	{"does not look like a TLS handshake", "it speaks no TLS: leave --ca out"},
	{"tls: unknown certificate authority", "it does not trust the authority of the certificate of --cert"},
	{"tls: bad certificate", "it refuses the certificate of --cert"},
	{"tls: expired certificate", "the certificate of --cert has expired"},
	{"certificate required", "it requires a certificate of the caller: name it with --cert and --key"},
	{"error reading server preface", "it speaks TLS, or is no sidecar: name the authority of its certificate with --ca"},
	{"certificate signed by unknown authority", "another authority than that of --ca has signed its certificate"},
	{"i/o timeout", "it does not answer"},
	{"network is unreachable", "the network does not lead there"},
}

// Unreachable adds the address, the cause and a remedy to a connection error. Errors returned by a sidecar
// are not changed.
func (t Target) Unreachable(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok || s.Code() != codes.Unavailable || len(s.Details()) > 0 { // a sidecar's own error has details
		return err
	}
	_, cause, lost := strings.Cut(s.Message(), `connection error: desc = `)
	if alert := t.readAlert(); alert != nil {
		cause, lost = alert.Error(), true
	}
	if !lost {
		return err
	}
	cause = strings.Trim(cause, `"`)
	text := fmt.Sprintf("no sidecar can be reached at %s: %s\n  another address: --addr, or PAWL_ADDR", t.Addr, readable(cause))
	return Usage(status.Error(codes.Unavailable, text))
}

// readable returns the text that describes the cause of a connection error. Causes in the table refusals have a text
// there. For other faults of a certificate, for example that it is valid for another host, readable returns the text of
// the library with an introduction. Any other cause is returned unchanged.
func readable(cause string) string {
	for _, r := range refusals {
		if strings.Contains(cause, r.has) {
			return r.says
		}
	}
	if _, fault, ok := strings.Cut(cause, "x509: "); ok {
		return "its certificate cannot be used: " + fault
	}
	return cause
}

// readAlert returns the TLS alert of a server that refuses the certificate of the caller, or nil. In TLS 1.3 the handshake of the client ends
// before the server has checked that certificate (RFC 8446, section 2). A call therefore sends data at once, and its error may be a broken
// pipe that hides the alert of the server. This connection sends nothing after the handshake, so it reads the alert.
func (t Target) readAlert() error {
	if t.CA == "" || strings.HasPrefix(t.Addr, "unix:") { // a sidecar asks for no certificate on its socket
		return nil
	}
	config, err := t.config()
	if err != nil {
		return nil
	}
	config.NextProtos = []string{"h2"}
	ctx, cancel := context.WithTimeout(context.Background(), alertTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", t.Addr)
	if err != nil {
		return nil
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(alertTimeout)); err != nil {
		return nil
	}
	var alert *net.OpError
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &alert) || alert.Op != "remote error" {
		return nil
	}
	return alert
}

// Dial returns a connection. It sends no data before the first call. The caller must close it.
func Dial(t Target) (*grpc.ClientConn, error) {
	transport, err := t.transport()
	if err != nil {
		return nil, Usage(err)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
	}
	if t.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(Bearer(t.Token)))
	}
	addr := t.Addr
	if !strings.HasPrefix(addr, "unix:") {
		addr = "passthrough:///" + addr
	}
	conn, err := grpc.NewClient(addr, append(options, t.Options...)...)
	if err != nil {
		return nil, Usage(fmt.Errorf("address %q: %w", t.Addr, err))
	}
	return conn, nil
}

// transport returns the credentials of the connection: TLS if a CA is set, otherwise none.
func (t Target) transport() (credentials.TransportCredentials, error) {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return nil, errors.New("client certificate: --cert and --key need each other")
	case t.CA == "" && t.Cert != "":
		return nil, errors.New("client certificate: --cert needs TLS: name the authority of the server's certificate with --ca")
	case t.CA == "":
		return insecure.NewCredentials(), nil
	}
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

// config returns the TLS configuration of a target with a CA.
func (t Target) config() (*tls.Config, error) {
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("authority: " + t.CA + " holds no certificate")
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if t.Cert != "" {
		own, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Bearer is a token that is sent with every call. It does not require TLS, because a sidecar on loopback or a Unix socket may serve
// without TLS.
type Bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b Bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (Bearer) RequireTransportSecurity() bool { return false }
