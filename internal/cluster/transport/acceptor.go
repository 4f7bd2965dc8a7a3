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

// These constants limit connections whose TLS handshake is not finished. If there are more than
// maxHandshakes, the oldest one is closed, so that slow clients cannot prevent nodes from connecting.
const (
	maxHandshakes    = 64
	handshakeTimeout = 3 * time.Second
)

// acceptor accepts connections, does the TLS handshake, and passes each connection to the gRPC or
// the HTTP server by its protocol.
type acceptor struct {
	net.Listener
	conf *tls.Config
	// grpc and http receive the connections whose handshake has succeeded.
	grpc, http  *queue
	mu          sync.Mutex
	handshaking []net.Conn
	handshakes  sync.WaitGroup
}

func newAcceptor(ln net.Listener, conf *tls.Config) *acceptor {
	return &acceptor{Listener: ln, conf: conf, grpc: newQueue(ln), http: newQueue(ln)}
}

// serve accepts connections until the listener is closed.
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
			// The process has too many open files. When a connection ends, another one can be accepted.
			time.Sleep(5 * time.Millisecond)
			continue
		}
		g.admit(conn)
		g.handshakes.Go(func() { g.handshake(conn) })
	}
}

// admit adds a connection to the connections whose handshake is not finished.
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

// end closes the connections in a handshake, and the queues of both servers.
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
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newQueue(of net.Listener) *queue {
	return &queue{Listener: of, conns: make(chan net.Conn), over: make(chan struct{})}
}

func (q *queue) put(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.over:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It does not close the port, because the acceptor owns the port.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.over) })
	return nil
}

// verifiedCreds are the gRPC credentials of a connection whose TLS handshake is already finished.
type verifiedCreds struct {
	credentials.TransportCredentials
}

// nodeInfo identifies the node at the other end of a connection by the key of its certificate.
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
