package auth

import (
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// connKind says by which way a connection came in that is not encrypted.
type connKind uint8

const (
	// connTCP is TCP without TLS.
	connTCP connKind = iota
	// connUnix is the Unix socket, which its file mode guards.
	connUnix
	// connInProcess is the in-process connection, which only the process itself has.
	connInProcess
)

// connInfo is the AuthInfo of an in-process connection or a Unix socket.
type connInfo struct {
	credentials.CommonAuthInfo
	kind connKind
}

// AuthType implements credentials.AuthInfo.
func (connInfo) AuthType() string { return "pawl" }

// transportCreds are the transport credentials of every listener of the gRPC server. TCP is
// encrypted where there is a certificate; the Unix socket and the in-process
// connection stay plain. What comes from outside of the process is watched for
// clients that reset streams without end.
type transportCreds struct {
	credentials.TransportCredentials
	tls credentials.TransportCredentials
	// outside watches a connection that comes from outside of the process.
	outside func(net.Conn) net.Conn
}

// NewTransportCredentials makes the credentials of a server. conf has the keys for TCP, nil for
// none; outside wraps connections from outside.
func NewTransportCredentials(conf *tls.Config, outside func(net.Conn) net.Conn) *transportCreds {
	d := &transportCreds{TransportCredentials: insecure.NewCredentials(), outside: outside}
	if conf != nil {
		d.tls = credentials.NewTLS(conf)
	}
	return d
}

// ServerHandshake chooses by the kind of the connection.
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

// Clone copies both halves.
func (d *transportCreds) Clone() credentials.TransportCredentials {
	c := &transportCreds{TransportCredentials: d.TransportCredentials.Clone(), outside: d.outside}
	if d.tls != nil {
		c.tls = d.tls.Clone()
	}
	return c
}
