package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	peerinfo "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
)

// These constants define how a node notices that another node is no longer reachable, and when it
// closes connections. The kernel of a suspended process still answers probes, so connections to it do
// not break. But its leases end, and its partitions get other owners. Then the other nodes close their
// connections to it, so that its unfinished calls continue at the new owners.
const (
	// pingEvery is the interval of gRPC's probes (keepalive pings). 10 s is the minimum that gRPC permits.
	pingEvery = 10 * time.Second
	// pingTimeout is how long a node waits for the answer to a keepalive ping before it closes the connection.
	pingTimeout = 3 * time.Second
	// connectTime limits the time for opening a connection to another node.
	connectTime = time.Second
	// pruneDelay is the time between a change of the owners and the closing of connections to nodes
	// that own no partition. In this time, answers that these nodes have already sent arrive.
	pruneDelay = 500 * time.Millisecond
	// pruneDelayUnowned is used instead of pruneDelay while a partition has no owner, because its last
	// owner may become reachable again, for example after an outage of the database.
	pruneDelayUnowned = time.Second
)

var (
	probes        = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 2}
	connectParams = grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
		MinConnectTimeout: connectTime,
	}
)

// Clients holds the connections to other nodes. A connection is made when it is first used. Safe
// for concurrent use.
type Clients struct {
	// Log receives messages about nodes that own a partition but cannot be reached. Default: no log. It
	// must be set before the first call.
	Log *slog.Logger

	identity  Identity
	directory router.Directory
	mu        sync.Mutex
	conns     map[router.Peer]*peerConn
	// closed is closed by Close. Close then uses watch to wait for follow, and for the goroutines that close
	// connections.
	closed chan struct{}
	watch  sync.WaitGroup
}

// NewClients returns Clients without connections. Connections to a node that no longer owns a partition
// are closed. The caller must call Close at the end.
func NewClients(identity Identity, directory router.Directory) *Clients {
	c := &Clients{identity: identity, directory: directory, conns: map[router.Peer]*peerConn{}, closed: make(chan struct{})}
	c.watch.Go(c.follow)
	return c
}

// peerConn has the connections to one node.
type peerConn struct {
	conn *grpc.ClientConn
	http *httpTransport
	// unreachableLogged is set when a log line has reported that the node cannot be reached, so that it is logged
	// only once.
	unreachableLogged atomic.Bool
}

func (l *peerConn) close() error {
	l.http.close()
	return l.conn.Close()
}

var errClosed = errors.New("peer: closed")

// to returns the connection to a node. It creates the connection if needed, but does not wait for it.
func (c *Clients) to(node router.Peer) (*peerConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.conns[node]; l != nil {
		return l, nil
	}
	select {
	case <-c.closed:
		return nil, errClosed
	default:
	}
	conn, err := c.connect(node)
	if err != nil {
		return nil, err
	}
	l := &peerConn{conn: conn, http: newHTTPTransport(node.Address, c.identity.config(trustOnly(node), protoHTTP))}
	c.conns[node] = l
	return l, nil
}

// trustOnly returns a function that accepts only the certificate key of the given node.
func trustOnly(node router.Peer) func([32]byte) bool {
	return func(key [32]byte) bool { return key == node.Key }
}

// connect returns a gRPC connection to a node. The connection is dialed when it is first used.
func (c *Clients) connect(node router.Peer) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+node.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(c.identity.config(trustOnly(node)))), grpc.WithContextDialer(dial),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}), grpc.WithConnectParams(connectParams),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connectionWindow), grpc.WithIdleTimeout(0), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytes), grpc.MaxCallSendMsgSize(messageBytes), grpc.ForceCodecV2(codec.NewCodec(0))))
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return conn, nil
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: connectTime, KeepAliveConfig: probes}).DialContext(ctx, "tcp", address)
}

// Call implements [router.Peers].
func (c *Clients) Call(ctx context.Context, to router.Peer, part int32, method string, req any) (any, error) {
	l, err := c.to(to)
	if err != nil {
		return nil, &router.Unsent{Cause: err}
	}
	out, err := outgoing(ctx, part)
	if err != nil {
		return nil, err
	}
	var resp codec.Message
	var at peerinfo.Peer
	var header, trailer metadata.MD
	err = l.conn.Invoke(out, method, req, &resp, grpc.Peer(&at), grpc.Header(&header), grpc.Trailer(&trailer))
	forwardMetadata(ctx, header, trailer)
	if err != nil {
		err = c.broken(ctx, err, at.Addr != nil)
		c.logUnreachable(l, to, err)
		return nil, err
	}
	return resp, nil
}

// logUnreachable logs that a node cannot be reached, if err says so, and only once for each peerConn. A
// frequent cause is a wrong --peer-address of that node.
func (c *Clients) logUnreachable(l *peerConn, to router.Peer, err error) {
	if unsent, ok := errors.AsType[*router.Unsent](err); ok && c.Log != nil && l.unreachableLogged.CompareAndSwap(false, true) {
		c.Log.Warn("peer unreachable, check its --peer-address",
			"address", to.Address, "error", unsent.Cause)
	}
}

// forwardMetadata sends the header and the trailer of a node's answer to the caller.
func forwardMetadata(ctx context.Context, header, trailer metadata.MD) {
	if header = forCaller(header); len(header) > 0 {
		_ = grpc.SetHeader(ctx, header)
	}
	if trailer = forCaller(trailer); len(trailer) > 0 {
		_ = grpc.SetTrailer(ctx, trailer)
	}
}

// forCaller removes metadata of a node's answer that concerns only the connection between the nodes or
// the status.
func forCaller(md metadata.MD) metadata.MD {
	for key := range md {
		if key == "content-type" || strings.HasPrefix(key, "grpc-") {
			delete(md, key)
		}
	}
	return md
}

// broken converts the error of a call to another node. began reports whether there was a connection for
// the call. If there was none and the code is UNAVAILABLE, the call was not sent, and the error becomes
// [router.Unsent].
func (c *Clients) broken(ctx context.Context, err error, began bool) error {
	if err == nil {
		return nil
	}
	code := status.Code(err)
	if ctx.Err() == nil && code == codes.Canceled {
		// This node has closed the connection itself, because the other node no longer owns a
		// partition. For the caller this is an error of the connection.
		err, code = status.Error(codes.Unavailable, "the connection was closed"), codes.Unavailable
	}
	if !began && code == codes.Unavailable {
		return &router.Unsent{Cause: err}
	}
	return err
}

// streams describes a stream to another node as if both sides send messages. The other node checks
// which directions the method allows.
var streams = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// Stream implements [router.Peers].
func (c *Clients) Stream(ctx context.Context, to router.Peer, part int32, method string) (grpc.ClientStream, error) {
	l, err := c.to(to)
	if err != nil {
		return nil, &router.Unsent{Cause: err}
	}
	out, err := outgoing(ctx, part)
	if err != nil {
		return nil, err
	}
	stream, err := l.conn.NewStream(out, streams, method)
	if err != nil {
		err = c.broken(ctx, err, false)
		c.logUnreachable(l, to, err)
		return nil, err
	}
	return &clientStream{stream, ctx, c}, nil
}

// clientStream is a stream to another node. The method broken converts its errors. Their parameter began is
// true, because the stream was opened.
type clientStream struct {
	grpc.ClientStream
	ctx context.Context //nolint:containedctx // it is the stream's
	c   *Clients
}

func (h *clientStream) Header() (metadata.MD, error) {
	md, err := h.ClientStream.Header()
	if err != nil || md == nil {
		return nil, h.c.broken(h.ctx, err, true)
	}
	return forCaller(md.Copy()), nil
}

func (h *clientStream) Trailer() metadata.MD { return forCaller(h.ClientStream.Trailer().Copy()) }

func (h *clientStream) RecvMsg(m any) error {
	err := h.ClientStream.RecvMsg(m)
	if err != nil {
		err = h.c.broken(h.ctx, err, true)
	}
	return err
}

// Transport implements [router.Peers].
func (c *Clients) Transport(to router.Peer, part int32) http.RoundTripper {
	l, err := c.to(to)
	if err != nil {
		return failingDirectory{err}
	}
	return roundTripper{l.http, part}
}

type failingDirectory struct{ err error }

func (n failingDirectory) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &router.Unsent{Cause: n.err}
}

// NotifyPeer makes a node poll the database now. It opens a connection for this purpose and closes it
// afterwards, because gRPC would dial a kept connection repeatedly, long after the node has ended.
func (c *Clients) NotifyPeer(ctx context.Context, to router.Peer) error {
	conn, err := c.connect(to)
	if err != nil {
		return err
	}
	return errors.Join(conn.Invoke(ctx, notifyMethod, &emptypb.Empty{}, &emptypb.Empty{}), conn.Close())
}

// owners are the nodes that own partitions.
type owners struct {
	nodes map[router.Peer]bool
	// all means that every partition has an owner.
	all bool
}

func (o owners) same(as owners) bool { return o.all == as.all && maps.Equal(o.nodes, as.nodes) }

func (c *Clients) owners() owners {
	nodes, all := c.directory.Owners()
	o := owners{map[router.Peer]bool{}, all}
	for _, node := range nodes {
		o.nodes[node] = true
	}
	return o
}

// follow watches the owners until Close. When a node has owned no partition for some time, follow
// closes the connections to it.
func (c *Clients) follow() {
	timer := time.NewTimer(pruneDelayUnowned)
	defer timer.Stop()
	var last owners
	for {
		changed := c.directory.Changed()
		if now := c.owners(); !now.same(last) {
			last = now
			if now.all {
				timer.Reset(pruneDelay)
			} else {
				timer.Reset(pruneDelayUnowned)
			}
		}
		select {
		case <-changed:
		case <-timer.C:
			c.prune(last)
		case <-c.closed:
			return
		}
	}
}

// prune closes connections to nodes that are not in current, the owners of partitions. If the owners
// have changed in the meantime, it does nothing, because calls to the new owners may be running. It
// does not wait until the connections are closed, because closing can take long if the network drops
// packets.
func (c *Clients) prune(current owners) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.owners().same(current) {
		return
	}
	for node, l := range c.conns {
		if !current.nodes[node] {
			delete(c.conns, node)
			c.watch.Go(func() { _ = l.close() })
		}
	}
}

// Close closes all connections.
func (c *Clients) Close() error {
	c.mu.Lock()
	close(c.closed)
	links := slices.Collect(maps.Values(c.conns))
	clear(c.conns)
	c.mu.Unlock()
	errs := make([]error, len(links))
	for i, l := range links {
		c.watch.Go(func() { errs[i] = l.close() })
	}
	c.watch.Wait()
	return errors.Join(errs...)
}

// httpTransport sends HTTP requests to one node.
type httpTransport struct {
	transport *http.Transport
	mu        sync.Mutex
	conns     map[*tracked]struct{}
	closed    bool
}

func newHTTPTransport(address string, conf *tls.Config) *httpTransport {
	c := &httpTransport{conns: map[*tracked]struct{}{}}
	c.transport = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, address, conf) },
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: headerBytes,
		WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10,
	}
	return c
}

// dial opens a connection and does the TLS handshake. In the handshake the other node proves its
// identity.
func (c *httpTransport) dial(ctx context.Context, address string, conf *tls.Config) (net.Conn, error) {
	tcp, err := dial(ctx, address)
	if err != nil {
		return nil, &router.Unsent{Cause: err}
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secure := tls.Client(tcp, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, &router.Unsent{Cause: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = tcp.Close()
		return nil, &router.Unsent{Cause: errClosed}
	}
	conn := &tracked{secure, tcp, c}
	c.conns[conn] = struct{}{}
	return conn, nil
}

// roundTripper sends HTTP requests to one partition of a node.
type roundTripper struct {
	transport *httpTransport
	part      int32
}

// RoundTrip implements http.RoundTripper.
func (c roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if err := outgoingHTTP(out, c.part); err != nil {
		return nil, err
	}
	return c.transport.transport.RoundTrip(out)
}

func (c *httpTransport) close() {
	c.mu.Lock()
	c.closed = true
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	for conn := range conns {
		// The TCP connection is closed without the closing message of TLS, because the other node may
		// no longer read it.
		_ = conn.tcpConn.Close()
	}
	c.transport.CloseIdleConnections()
}

// tracked is an open connection. It is in the map conns of its httpTransport until it is closed.
type tracked struct {
	net.Conn
	// tcpConn is the TCP connection below TLS.
	tcpConn   net.Conn
	transport *httpTransport
}

func (t *tracked) Close() error {
	t.transport.mu.Lock()
	delete(t.transport.conns, t)
	t.transport.mu.Unlock()
	return t.Conn.Close()
}
