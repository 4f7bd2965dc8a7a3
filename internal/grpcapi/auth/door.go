package auth

import (
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// doorKind says by which way a connection came in that is not encrypted.
type doorKind uint8

const (
	// doorPlain is TCP without TLS.
	doorPlain doorKind = iota
	// doorSocket is the Unix socket, which its file mode guards.
	doorSocket
	// doorLocal is the in-process connection, which only the process itself has.
	doorLocal
)

// doorInfo is the AuthInfo of such a connection.
type doorInfo struct {
	credentials.CommonAuthInfo
	kind doorKind
}

// AuthType implements credentials.AuthInfo.
func (doorInfo) AuthType() string { return "door" }

// doors are the transport credentials of every listener of the gRPC server. TCP is
// encrypted where there is a certificate; the Unix socket and the in-process
// connection stay plain. What comes from outside of the process is watched for
// clients that reset streams without end.
type doors struct {
	credentials.TransportCredentials
	tls credentials.TransportCredentials
	// outside watches a connection that comes from outside of the process.
	outside func(net.Conn) net.Conn
}

// NewDoors takes the keys for TCP, nil for none, and who watches what comes from
// outside.
func NewDoors(conf *tls.Config, outside func(net.Conn) net.Conn) *doors {
	d := &doors{TransportCredentials: insecure.NewCredentials(), outside: outside}
	if conf != nil {
		d.tls = credentials.NewTLS(conf)
	}
	return d
}

// ServerHandshake chooses by the kind of the connection.
func (d *doors) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	kind := doorLocal
	switch conn.LocalAddr().(type) {
	case *net.TCPAddr:
		kind = doorPlain
	case *net.UnixAddr:
		kind = doorSocket
	}
	if kind == doorPlain && d.tls != nil {
		secure, info, err := d.tls.ServerHandshake(conn)
		if err != nil {
			return nil, nil, err
		}
		return d.outside(secure), info, nil
	}
	if kind != doorLocal {
		conn = d.outside(conn)
	}
	return conn, doorInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, kind: kind}, nil
}

// Clone copies both halves.
func (d *doors) Clone() credentials.TransportCredentials {
	c := &doors{TransportCredentials: d.TransportCredentials.Clone(), outside: d.outside}
	if d.tls != nil {
		c.tls = d.tls.Clone()
	}
	return c
}
