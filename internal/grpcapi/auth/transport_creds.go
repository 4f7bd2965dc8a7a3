package auth

import (
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// connKind is the kind of a connection without encryption.
type connKind uint8

const (
	// connTCP is TCP without TLS.
	connTCP connKind = iota
	// connUnix is the Unix socket. Its file mode protects it.
	connUnix
	// connInProcess is the in-process connection, which only this process can use.
	connInProcess
)

// connInfo is the AuthInfo of a connection that is not encrypted.
type connInfo struct {
	credentials.CommonAuthInfo
	kind connKind
}

// AuthType implements credentials.AuthInfo.
func (connInfo) AuthType() string { return "pawl" }

// transportCreds are the transport credentials of every listener of the gRPC server. TCP connections
// are encrypted if there is a certificate. The Unix socket and the in-process connection are not
// encrypted. Connections from outside the process are wrapped, in order to detect clients that reset
// streams again and again.
type transportCreds struct {
	credentials.TransportCredentials
	tls credentials.TransportCredentials
	// outside wraps a connection that comes from outside the process.
	outside func(net.Conn) net.Conn
}

// NewTransportCredentials returns the credentials of a server. conf contains the TLS keys for TCP. It
// is nil without TLS. outside wraps connections from outside the process.
func NewTransportCredentials(conf *tls.Config, outside func(net.Conn) net.Conn) *transportCreds {
	d := &transportCreds{TransportCredentials: insecure.NewCredentials(), outside: outside}
	if conf != nil {
		d.tls = credentials.NewTLS(conf)
	}
	return d
}

// ServerHandshake does the handshake that the kind of the connection requires.
func (d *transportCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	kind := connInProcess
	switch conn.LocalAddr().(type) {
	case *net.TCPAddr:
		kind = connTCP
	case *net.UnixAddr:
		kind = connUnix
	}
	if kind == connTCP && d.tls != nil {
		secure, info, err := d.tls.ServerHandshake(conn)
		if err != nil {
			return nil, nil, err
		}
		return d.outside(secure), info, nil
	}
	if kind != connInProcess {
		conn = d.outside(conn)
	}
	return conn, connInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, kind: kind}, nil
}

// Clone returns a copy of the credentials.
func (d *transportCreds) Clone() credentials.TransportCredentials {
	c := &transportCreds{TransportCredentials: d.TransportCredentials.Clone(), outside: d.outside}
	if d.tls != nil {
		c.tls = d.tls.Clone()
	}
	return c
}
