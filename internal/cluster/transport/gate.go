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

// Bounds of who has connected and not proved itself yet. Of too many the oldest goes, so that
// who is slow keeps nobody out.
const (
	maxGreeting  = 64
	greetingTime = 3 * time.Second
)

// gate takes connections, finds out which node it is and hands each on by its protocol.
type gate struct {
	net.Listener
	conf *tls.Config
	// grpc and http are those that proved themselves.
	grpc, http *queue
	mu         sync.Mutex
	greeting   []net.Conn
	handshakes sync.WaitGroup
}

func newGate(ln net.Listener, conf *tls.Config) *gate {
	return &gate{Listener: ln, conf: conf, grpc: newQueue(ln), http: newQueue(ln)}
}

// serve takes connections until the listener is closed.
func (g *gate) serve() error {
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
			// Too many files are open: what ends lets the next one in.
			time.Sleep(5 * time.Millisecond)
			continue
		}
		g.admit(conn)
		g.handshakes.Go(func() { g.greet(conn) })
	}
}

// admit counts a connection among those that have to prove themselves.
func (g *gate) admit(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.greeting = append(g.greeting, conn)
	if len(g.greeting) > maxGreeting {
		_ = g.greeting[0].Close()
		g.greeting = g.greeting[1:]
	}
}

func (g *gate) dismiss(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, one := range g.greeting {
		if one == conn {
			g.greeting = append(g.greeting[:i:i], g.greeting[i+1:]...)
			return
		}
	}
}

// greet has a connection prove itself.
func (g *gate) greet(conn net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), greetingTime)
	defer cancel()
	secure := tls.Server(conn, g.conf)
	err := secure.HandshakeContext(ctx)
	g.dismiss(conn)
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

// end lets nobody wait for connections any more.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range g.greeting {
		_ = conn.Close()
	}
	_ = g.grpc.Close()
	_ = g.http.Close()
}

// queue is the listener of one protocol.
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

// Close implements net.Listener. The port is the gate's to close.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.over) })
	return nil
}

// proved are the credentials of a connection whose handshake is over.
type proved struct {
	credentials.TransportCredentials
}

// nodeInfo is which node a connection is of.
type nodeInfo struct {
	credentials.CommonAuthInfo
	key [32]byte
}

// AuthType implements credentials.AuthInfo.
func (nodeInfo) AuthType() string { return "node" }

// ServerHandshake implements credentials.TransportCredentials.
func (proved) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil, errStranger
	}
	key, ok := keyOf(secure.ConnectionState())
	if !ok {
		return nil, nil, errStranger
	}
	return conn, nodeInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, key}, nil
}

// Clone implements credentials.TransportCredentials.
func (p proved) Clone() credentials.TransportCredentials { return p }
