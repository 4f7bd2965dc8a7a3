package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// These constants limit connections whose TLS handshake is not finished, by number and by time. If
// there are more than maxHandshakes, the oldest one is closed, so that slow clients cannot prevent
// nodes from connecting.
const (
	maxHandshakes    = 64
	handshakeTimeout = 3 * time.Second
)

// acceptor accepts connections of other nodes and does the TLS handshake. It passes each connection to
// the gRPC or the HTTP server, by the protocol that the handshake has negotiated.
type acceptor struct {
	net.Listener
	conf *tls.Config
	// grpc and http are the listeners of the two servers. They get the connections whose TLS handshake
	// has succeeded.
	grpc, http  *queue
	mu          sync.Mutex
	handshaking []net.Conn
	handshakes  sync.WaitGroup
}

func newAcceptor(ln net.Listener, conf *tls.Config) *acceptor {
	return &acceptor{Listener: ln, conf: conf, grpc: newQueue(ln), http: newQueue(ln)}
}

// serve accepts connections until the listener is closed or fails permanently.
func (g *acceptor) serve() error {
	defer g.handshakes.Wait()
	defer g.end()
	for {
		conn, err := g.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			if temporary, ok := errors.AsType[interface {
				error
				Temporary() bool
			}](err); !ok || !temporary.Temporary() {
				return err
			}
			// The error is temporary, for example because the process has too many open files. After
			// another connection has ended, Accept can succeed.
			time.Sleep(5 * time.Millisecond)
			continue
		}
		g.admit(conn)
		g.handshakes.Go(func() { g.handshake(conn) })
	}
}

// admit adds a new connection to the list of connections whose TLS handshake is not finished.
func (g *acceptor) admit(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handshaking = append(g.handshaking, conn)
	if len(g.handshaking) > maxHandshakes {
		_ = g.handshaking[0].Close()
		g.handshaking = g.handshaking[1:]
	}
}

func (g *acceptor) handshakeDone(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, one := range g.handshaking {
		if one == conn {
			g.handshaking = append(g.handshaking[:i:i], g.handshaking[i+1:]...)
			return
		}
	}
}

// handshake does the TLS handshake of a connection, and closes the connection if it fails.
func (g *acceptor) handshake(conn net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	secure := tls.Server(conn, g.conf)
	err := secure.HandshakeContext(ctx)
	g.handshakeDone(conn)
	if err != nil {
		_ = conn.Close()
		return
	}
	to := g.http
	if secure.ConnectionState().NegotiatedProtocol == protoGRPC {
		to = g.grpc
	}
	to.put(secure)
}

// end closes the connections whose TLS handshake is not finished, and the listeners of both servers.
func (g *acceptor) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range g.handshaking {
		_ = conn.Close()
	}
	_ = g.grpc.Close()
	_ = g.http.Close()
}

// queue is the listener from which the server of one protocol gets its connections.
type queue struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newQueue(of net.Listener) *queue {
	return &queue{Listener: of, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (q *queue) put(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It does not close the port, because the acceptor owns the port.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// verifiedCreds are the gRPC credentials of a connection from another node. The acceptor has already
// finished the TLS handshake.
type verifiedCreds struct {
	credentials.TransportCredentials
}

// nodeInfo identifies the node that opened a connection, by the key of its certificate.
type nodeInfo struct {
	credentials.CommonAuthInfo
	key [32]byte
}

// AuthType implements credentials.AuthInfo.
func (nodeInfo) AuthType() string { return "node" }

// ServerHandshake implements credentials.TransportCredentials.
func (verifiedCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil, errUnknownPeer
	}
	key, ok := keyOf(secure.ConnectionState())
	if !ok {
		return nil, nil, errUnknownPeer
	}
	return conn, nodeInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, key}, nil
}

// Clone implements credentials.TransportCredentials.
func (p verifiedCreds) Clone() credentials.TransportCredentials { return p }
