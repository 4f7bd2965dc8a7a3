package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl/internal/secretfile"
)

// ListenTCP binds an address HOST:PORT. open means that callers are authenticated, or that the operator
// permits insecure callers. If open is false, an empty HOST means loopback, and any address other than
// loopback is refused.
func ListenTCP(field, address string, open bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s %q: want HOST:PORT: %w", field, address, err)
	}
	if host == "" && !open {
		host = "127.0.0.1"
	}
	if !open && !loopbackHost(host) {
		return nil, fmt.Errorf("%s %q is not a loopback address: where callers show neither tokens nor certificates only loopback is served; "+
			"configure tokens_file or tls_client_ca, or accept the risk with insecure_bind", field, address)
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if !open && !loopbackAddr(ln.Addr()) {
		return nil, errors.Join(fmt.Errorf("%s %q resolved to %s, which is not loopback", field, address, ln.Addr()), ln.Close())
	}
	return ln, nil
}

// loopbackHost reports whether every address of a host name is a loopback address.
func loopbackHost(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	ips, err := net.DefaultResolver.LookupIPAddr(context.Background(), host)
	if err != nil || len(ips) == 0 {
		return false
	}
	for _, ip := range ips {
		if !ip.IP.IsLoopback() {
			return false
		}
	}
	return true
}

func loopbackAddr(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// ListenUnix binds a socket that only its owner may use. It replaces the socket of a crashed process,
// but not a socket that still answers.
func ListenUnix(path string) (net.Listener, error) {
	if err := clearStaleSocket(path); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), ln.Close())
	}
	return ln, nil
}

// clearStaleSocket removes a Unix socket that a process has left. It returns an error if another process serves
// the socket or the path is another file.
func clearStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is no socket", path)
	}
	dialer := net.Dialer{Timeout: time.Second}
	if conn, err := dialer.DialContext(context.Background(), "unix", path); err == nil {
		return errors.Join(fmt.Errorf("%s is served by another process", path), conn.Close())
	}
	return os.Remove(path)
}

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
	// wrapExternal wraps a connection that comes from outside the process.
	wrapExternal func(net.Conn) net.Conn
}

// NewTransportCredentials returns the credentials of a server. conf contains the TLS keys for TCP. It
// is nil without TLS. outside wraps connections from outside the process.
func NewTransportCredentials(conf *tls.Config, outside func(net.Conn) net.Conn) *transportCreds {
	d := &transportCreds{TransportCredentials: insecure.NewCredentials(), wrapExternal: outside}
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
		return d.wrapExternal(secure), info, nil
	}
	if kind != connInProcess {
		conn = d.wrapExternal(conn)
	}
	return conn, connInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, kind: kind}, nil
}

// Clone returns a copy of the credentials.
func (d *transportCreds) Clone() credentials.TransportCredentials {
	c := &transportCreds{TransportCredentials: d.TransportCredentials.Clone(), wrapExternal: d.wrapExternal}
	if d.tls != nil {
		c.tls = d.tls.Clone()
	}
	return c
}

// KeyFiles are the PEM files of a server. Without TLS all are "".
type KeyFiles struct{ Cert, Key, ClientCA string }

// Keys are the contents of [KeyFiles] when they were read.
type Keys struct {
	cert tls.Certificate
	// ClientCAs contains the authorities that sign the certificates of callers. Roots contains the
	// digests of these authorities. Both are nil if no certificates are requested.
	ClientCAs *x509.CertPool
	Roots     map[[sha256.Size]byte]bool
}

// Read reads the files. It returns nil if no certificate is configured.
func (f KeyFiles) Read() (*Keys, error) {
	if f.Cert == "" && f.Key == "" {
		if f.ClientCA != "" {
			return nil, errors.New("tls_client_ca needs tls_cert and tls_key")
		}
		return nil, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("tls_cert and tls_key go together")
	}
	k := &Keys{}
	var err error
	if k.cert, err = secretfile.ReadKeyPair(f.Cert, f.Key); err != nil {
		return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
	}
	if f.ClientCA == "" {
		return k, nil
	}
	if err := k.authorities(f.ClientCA); err != nil {
		return nil, fmt.Errorf("tls_client_ca: %w", err)
	}
	return k, nil
}

// authorities reads the certificates of the authorities that may sign client certificates, from a PEM file.
func (k *Keys) authorities(path string) error {
	rest, err := secretfile.ReadTrusted(path)
	if err != nil {
		return err
	}
	k.ClientCAs, k.Roots = x509.NewCertPool(), map[[sha256.Size]byte]bool{}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		k.ClientCAs.AddCert(cert)
		k.Roots[sha256.Sum256(cert.Raw)] = true
	}
	if len(k.Roots) == 0 {
		return fmt.Errorf("%s holds no PEM certificate", path)
	}
	return nil
}

// Expiry returns the end of the validity of the server's certificate.
func (k *Keys) Expiry() time.Time { return k.cert.Leaf.NotAfter }

// config returns the TLS configuration for a handshake.
func (k *Keys) config(protocols []string) *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{k.cert}, NextProtos: protocols}
	if k.ClientCAs != nil {
		conf.ClientCAs, conf.ClientAuth = k.ClientCAs, tls.RequireAndVerifyClientCert
	}
	return conf
}

// Keyring holds the TLS keys of a server. The keys may be replaced while the server runs. New
// connections then use the new keys. It is nil without TLS.
type Keyring struct{ Current atomic.Pointer[Keys] }

// NewKeyring returns a Keyring with the keys k. If k is nil, it returns nil.
func NewKeyring(k *Keys) *Keyring {
	if k == nil {
		return nil
	}
	ring := &Keyring{}
	ring.Current.Store(k)
	return ring
}

// Config returns a TLS configuration that uses the current keys for each handshake. Without TLS it
// returns nil.
func (r *Keyring) Config(protocols ...string) *tls.Config {
	if r == nil {
		return nil
	}
	conf := r.Current.Load().config(protocols)
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return r.Current.Load().config(protocols), nil
	}
	return conf
}
