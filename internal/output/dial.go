package output

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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

// Target is the address of a sidecar, with the options for connecting to it.
type Target struct {
	// Addr is HOST:PORT or unix:PATH.
	Addr string
	// Token is a bearer token; "" = none.
	Token string
	// CA is a PEM file with the authority that signs the server's certificate; "" = the connection has no TLS.
	CA string
	// Options are additional options of the connection.
	Options []grpc.DialOption
}

// refusals maps a part of a connection error of the library to a readable text with cause and remedy.
var refusals = []struct{ has, says string }{
	{"connection refused", "nothing listens there; start one with: pawl serve --data DIR"},
	{"no such file or directory", "there is no such socket; start one with: pawl serve --data DIR --socket PATH"},
	{"no such host", "no host has that name"},
	{"does not look like a TLS handshake", "it speaks no TLS: leave --ca out"},
	{"error reading server preface", "it speaks TLS, or is no sidecar: name the authority of its certificate with --ca"},
	{"certificate signed by unknown authority", "another authority than that of --ca has signed its certificate"},
	{"x509: ", "its certificate is not to be trusted"},
	{"i/o timeout", "it does not answer"},
	{"network is unreachable", "the network does not lead there"},
}

// Unreachable adds the address, the cause and a remedy to a connection error. Errors returned by a sidecar
// are not changed.
func (t Target) Unreachable(err error) error {
	s, ok := status.FromError(err)
	_, says, lost := strings.Cut(s.Message(), `connection error: desc = `)
	if err == nil || !ok || s.Code() != codes.Unavailable || !lost {
		return err
	}
	says = strings.Trim(says, `"`)
	for _, r := range refusals {
		if strings.Contains(s.Message(), r.has) {
			says = r.says
			break
		}
	}
	text := fmt.Sprintf("no sidecar can be reached at %s: %s\n  another address: --addr, or PAWL_ADDR", t.Addr, says)
	return Usage(status.Error(codes.Unavailable, text))
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

func (t Target) transport() (credentials.TransportCredentials, error) {
	if t.CA == "" {
		return insecure.NewCredentials(), nil
	}
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("authority: " + t.CA + " holds no certificate")
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}), nil
}

// Bearer is a token that is sent with every call. Over loopback and Unix sockets it may be sent without TLS.
type Bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b Bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (Bearer) RequireTransportSecurity() bool { return false }
