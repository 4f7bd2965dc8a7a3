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
	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
)

// These constants define how a node notices that another node is no longer reachable. The kernel probes
// a silent connection each second. gRPC probes it each ten seconds, which is its minimum. If a process
// is suspended, the kernel still answers. In this case its leases end, and other nodes close their
// connections to it soon after all its partitions have other owners, so that its unfinished calls
// continue elsewhere. Answers that it sent earlier have arrived by then. While one of its partitions
// has no owner, the node may become reachable again, for example after an outage of the database. The
// connections to a node that keeps a partition are kept.
const (
	pingEvery         = 10 * time.Second
	silence           = 3 * time.Second
	connectTime       = time.Second
	pruneDelay        = 500 * time.Millisecond
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
	// over is closed by Close. Close then waits for the goroutines of watch, which close connections to
	// nodes that are no longer owners.
	over  chan struct{}
	watch sync.WaitGroup
}

// NewClients returns Clients without connections. Connections to a node that no longer owns a partition
// are closed. The caller must call Close at the end.
func NewClients(identity Identity, directory router.Directory) *Clients {
	c := &Clients{identity: identity, directory: directory, conns: map[router.Peer]*peerConn{}, over: make(chan struct{})}
	c.watch.Go(c.follow)
	return c
}

// peerConn has the connections to one node.
type peerConn struct {
	conn *grpc.ClientConn
	http *httpTransport
	// missed reports whether a log line has already reported that the node cannot be reached.
	missed atomic.Bool
}

func (l *peerConn) close() error {
	l.http.close()
	return l.conn.Close()
}

var errClosed = errors.New("peer: closed")

func (c *Clients) to(node router.Peer) (*peerConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.conns[node]; l != nil {
		return l, nil
	}
	select {
	case <-c.over:
		return nil, errClosed
	default:
	}
	conn, err := c.connect(node)
	if err != nil {
		return nil, err
	}
	l := &peerConn{conn: conn, http: newHTTPTransport(node.Address, c.identity.config(only(node), protoHTTP))}
	c.conns[node] = l
	return l, nil
}

// only returns a function that accepts only the key of one node.
func only(node router.Peer) func([32]byte) bool {
	return func(key [32]byte) bool { return key == node.Key }
}

// connect returns a gRPC connection to a node. The connection is dialed when it is first used.
func (c *Clients) connect(node router.Peer) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+node.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(c.identity.config(only(node)))), grpc.WithContextDialer(dial),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: silence}), grpc.WithConnectParams(connectParams),
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
	var resp encoded.Message
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

// logUnreachable logs that a node cannot be reached, once for each node. A frequent cause is a wrong
// --peer-address of that node.
func (c *Clients) logUnreachable(l *peerConn, to router.Peer, err error) {
	if unsent, ok := errors.AsType[*router.Unsent](err); ok && c.Log != nil && l.missed.CompareAndSwap(false, true) {
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

// forCaller removes the keys of an answer that concern the connection or the status.
func forCaller(md metadata.MD) metadata.MD {
	for key := range md {
		if key == "content-type" || strings.HasPrefix(key, "grpc-") {
			delete(md, key)
		}
	}
	return md
}

// broken converts the error of a call. began reports whether there was a connection for the call. If
// there was none and the node is unavailable, the error is [router.Unsent].
func (c *Clients) broken(ctx context.Context, err error, began bool) error {
	if err == nil {
		return nil
	}
	code := status.Code(err)
	if ctx.Err() == nil && code == codes.Canceled {
		// This node has closed the connection, because the other node no longer owns a partition.
		err, code = status.Error(codes.Unavailable, "the connection was closed"), codes.Unavailable
	}
	if !began && code == codes.Unavailable {
		return &router.Unsent{Cause: err}
	}
	return err
}

// streams describes a stream in both directions. The other node checks what the method allows.
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

// clientStream is a stream to another node. Its errors are converted by broken.
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
		return nowhere{err}
	}
	return roundTripper{l.http, part}
}

type nowhere struct{ err error }

func (n nowhere) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &router.Unsent{Cause: n.err}
}

// NotifyPeer makes a node poll now. It opens a connection for this purpose and closes it afterwards. A
// connection that is kept would be dialed repeatedly, long after the node has ended.
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
		case <-c.over:
			return
		}
	}
}

// prune closes connections to nodes that are not in current. If the owners have changed in the meantime,
// it does nothing, because calls to the new owners may be running. It does not wait until the
// connections are closed, because this can take long if no packets get through.
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
	close(c.over)
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
	plain, err := dial(ctx, address)
	if err != nil {
		return nil, &router.Unsent{Cause: err}
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secure := tls.Client(plain, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, &router.Unsent{Cause: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = plain.Close()
		return nil, &router.Unsent{Cause: errClosed}
	}
	conn := &tracked{secure, plain, c}
	c.conns[conn] = struct{}{}
	return conn, nil
}

// roundTripper sends HTTP requests to one partition of a node.
type roundTripper struct {
	by   *httpTransport
	part int32
}

// RoundTrip implements http.RoundTripper.
func (c roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if err := outgoingHTTP(out, c.part); err != nil {
		return nil, err
	}
	return c.by.transport.RoundTrip(out)
}

func (c *httpTransport) close() {
	c.mu.Lock()
	c.closed = true
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	for conn := range conns {
		// The TCP connection is closed without the closing message of TLS, because the other node may
		// not read it.
		_ = conn.plain.Close()
	}
	c.transport.CloseIdleConnections()
}

// tracked is a connection that is in the map conns of its httpTransport until it is closed.
type tracked struct {
	net.Conn
	// plain is the TCP connection below TLS.
	plain net.Conn
	of    *httpTransport
}

func (t *tracked) Close() error {
	t.of.mu.Lock()
	delete(t.of.conns, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}
