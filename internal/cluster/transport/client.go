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

// Silence reveals a disconnected node: the kernel probes each second, gRPC each ten seconds,
// its minimum. A stopped process still answers the kernel. Its leases end, and the connections
// of others to it are closed soon after all its partitions have other owners: its unfinished
// calls continue elsewhere. Answers that it sent earlier have arrived by then. While one of its
// partitions has no owner it may come back, as after an outage of the database. A node that
// keeps a partition keeps its connections.
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

// Clients are connections to other nodes, made when they are first used. Safe for concurrent use.
type Clients struct {
	// Log gets messages about unreachable nodes that own a partition. Default: none. Set it
	// before the first call.
	Log *slog.Logger

	identity  Identity
	directory router.Directory
	mu        sync.Mutex
	conns     map[router.Peer]*peerConn
	// over is closed by Close, which waits for watch: the goroutine that follows the owners and
	// closes connections to other nodes.
	over  chan struct{}
	watch sync.WaitGroup
}

// NewClients has none yet. Those to a node that owns no partition any more are closed. Close it.
func NewClients(identity Identity, directory router.Directory) *Clients {
	c := &Clients{identity: identity, directory: directory, conns: map[router.Peer]*peerConn{}, over: make(chan struct{})}
	c.watch.Go(c.follow)
	return c
}

// peerConn is a node with what is open to it.
type peerConn struct {
	conn *grpc.ClientConn
	http *httpTransport
	// missed: it was logged that the node is not reached.
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

// only knows one node.
func only(node router.Peer) func([32]byte) bool {
	return func(key [32]byte) bool { return key == node.Key }
}

// connect is a connection, which is made when it is first used.
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

// logUnreachable says once of a node that it is not reached, as where it names an address that leads nowhere.
func (c *Clients) logUnreachable(l *peerConn, to router.Peer, err error) {
	if unsent, ok := errors.AsType[*router.Unsent](err); ok && c.Log != nil && l.missed.CompareAndSwap(false, true) {
		c.Log.Warn("peer unreachable, check its --peer-address",
			"address", to.Address, "error", unsent.Cause)
	}
}

// forwardMetadata hands on what a node says besides its answer.
func forwardMetadata(ctx context.Context, header, trailer metadata.MD) {
	if header = forCaller(header); len(header) > 0 {
		_ = grpc.SetHeader(ctx, header)
	}
	if trailer = forCaller(trailer); len(trailer) > 0 {
		_ = grpc.SetTrailer(ctx, trailer)
	}
}

// forCaller is metadata of an answer without what is of the connection or the status.
func forCaller(md metadata.MD) metadata.MD {
	for key := range md {
		if key == "content-type" || strings.HasPrefix(key, "grpc-") {
			delete(md, key)
		}
	}
	return md
}

// broken gives the error of a call its form. began: there was a connection to make it on.
func (c *Clients) broken(ctx context.Context, err error, began bool) error {
	if err == nil {
		return nil
	}
	code := status.Code(err)
	if ctx.Err() == nil && code == codes.Canceled {
		// A connection that this node closed, because the other is no owner any more.
		err, code = status.Error(codes.Unavailable, "the connection was closed"), codes.Unavailable
	}
	if !began && code == codes.Unavailable {
		return &router.Unsent{Cause: err}
	}
	return err
}

// streams is a description that allows everything: the other side knows what the method does.
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

// clientStream is a stream whose errors are converted.
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

// NotifyPeer makes a node poll now. It uses a connection of its own and closes it, because a
// kept connection would be dialed again and again long after the node is gone.
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
	// all: no partition is without an owner.
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

// follow closes connections to nodes that own no partition, some time after their last
// ownership.
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

// prune closes connections to nodes other than the owners, unless the owners have changed
// again: calls may be on their way to them. A connection without outgoing packets takes long to
// close, and prune does not wait for it.
func (c *Clients) prune(heard owners) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.owners().same(heard) {
		return
	}
	for node, l := range c.conns {
		if !heard.nodes[node] {
			delete(c.conns, node)
			c.watch.Go(func() { _ = l.close() })
		}
	}
}

// Close ends all connections.
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

// httpTransport carries requests over HTTP to one node.
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

// dial opens a connection on which the other node has proved itself.
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

// roundTripper carries those of one partition.
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
		// Without a word: the other side may take none.
		_ = conn.plain.Close()
	}
	c.transport.CloseIdleConnections()
}

// tracked is a connection that its carrier knows.
type tracked struct {
	net.Conn
	// plain is below TLS.
	plain net.Conn
	of    *httpTransport
}

func (t *tracked) Close() error {
	t.of.mu.Lock()
	delete(t.of.conns, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}
