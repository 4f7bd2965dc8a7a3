package grpcapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// loadTLS reads the certificate, its key and, where given, the authority that
// callers' certificates must be signed by. It returns nil without a certificate.
func loadTLS(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		if clientCAFile != "" {
			return nil, errors.New("tls_client_ca needs tls_cert and tls_key")
		}
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("tls_cert and tls_key go together")
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if clientCAFile == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(clientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls_client_ca: %w", err)
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls_client_ca %s holds no PEM certificate", clientCAFile)
	}
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	return conf, nil
}

// tcpOnlyTLS encrypts TCP connections. The Unix socket is guarded by its file
// mode and the in-process connection by the process, so both stay plain.
type tcpOnlyTLS struct {
	credentials.TransportCredentials
	plain credentials.TransportCredentials
}

func newTCPOnlyTLS(conf *tls.Config) credentials.TransportCredentials {
	return &tcpOnlyTLS{TransportCredentials: credentials.NewTLS(conf), plain: insecure.NewCredentials()}
}

// ServerHandshake chooses by the kind of the connection.
func (c *tcpOnlyTLS) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, tcp := conn.LocalAddr().(*net.TCPAddr); tcp {
		return c.TransportCredentials.ServerHandshake(conn)
	}
	return c.plain.ServerHandshake(conn)
}

// Clone copies both halves.
func (c *tcpOnlyTLS) Clone() credentials.TransportCredentials {
	return &tcpOnlyTLS{TransportCredentials: c.TransportCredentials.Clone(), plain: c.plain.Clone()}
}
