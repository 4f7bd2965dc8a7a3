package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/grpcapi/decisionlink"
)

// streamWorkers is the number of goroutines that handle calls. They are reused, because the stack of a
// new goroutine would have to grow three times during decoding, interceptors and constraints. For each
// call this took 7 % of a busy server's time. If all of them are busy, a call gets a new goroutine.
const streamWorkers = 256

// These are the HTTP/2 flow-control windows for received data, in bytes. They are fixed, because gRPC's own
// estimation sends a ping in each round trip with data, and allows a connection 16 MiB.
const (
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20
)

// localBufferBytes is the size of the buffer of the in-process connection, in bytes.
const localBufferBytes = 256 << 10

// Server serves pawl.v1 on TCP, a Unix socket and an in-process connection.
type Server struct {
	cfg    Config
	keys   *auth.Keyring
	grpc   *grpc.Server
	auth   *auth.Authenticator
	edge   *edge
	health *healthState
	// draining is closed when streams must end because the server is shutting down.
	draining  chan struct{}
	drainOnce sync.Once
	// validator checks the constraints of requests.
	validator protovalidate.Validator

	// limit limits calls per principal and namespace.
	limit *callLimiter
	// streams limits the calls that stay open.
	streams *streamLimiter
	// links makes and reads decision links. nil means that there are no links.
	links *decisionlink.Signer
	// ownServices are the server's own services. On a server with a router, ownServices has only the names of the
	// services. plugin is the service of another package, or nil.
	ownServices *Services
	plugin      *Plugin

	tcp, unix net.Listener
	local     *bufconn.Listener
	gateway   *jsonPort
	metrics   *httpListener
}

// New checks the configuration, builds the server and binds its addresses. It does not serve yet. The
// error contains all faults of the configuration. If there is an error, all addresses are released.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, edge: &edge{log: cfg.Log, metrics: newCallMetrics(cfg.Counts, cfg.Log), auditLog: newAuditLogger(cfg.Audit, operations())},
		draining: make(chan struct{}),
		// The constraints of a message are compiled when the message is first requested. Compiling all
		// of them would take a third of the start time and 3 MB. A test checks that all of them can be
		// compiled.
		validator: newFastValidator(), links: newSigner(cfg),
	}
	rights, err := readRights(cfg, nil, s.renew)
	if err := errors.Join(cfg.validate(), err); err != nil {
		return nil, fmt.Errorf("grpcapi: %w", err)
	}
	s.keys, s.auth, s.local = auth.NewKeyring(rights.keys), auth.NewAuthenticator(operations(), rights.state()), bufconn.Listen(localBufferBytes)
	if cfg.Own != "" {
		s.auth.Own(cfg.Own)
	}
	if err := s.build(); err != nil {
		return nil, fmt.Errorf("grpcapi: %w", err)
	}
	if err := s.bind(); err != nil {
		return nil, errors.Join(fmt.Errorf("grpcapi: %w", err), s.release())
	}
	return s, nil
}

// build creates the gRPC server with its services. If they are configured, it also creates the gateway
// and the listener of the metrics.
func (s *Server) build() error {
	s.limit, s.streams = newCallLimiter(s.cfg.RequestsPerSecond, s.cfg.Quotas), newStreamLimiter(s.cfg.MaxStreams, s.cfg.Quotas)
	s.grpc = grpc.NewServer(append(s.transport(), s.chain()...)...)
	s.registerServices()
	if err := s.registerPlugin(); err != nil {
		return err
	}
	s.health = newHealth(s.grpc)
	reflection.Register(s.grpc)
	if s.cfg.Channelz {
		channelz.RegisterChannelzServiceToServer(s.grpc)
	}
	if err := s.auth.Unlisted(s.grpc.GetServiceInfo()); err != nil {
		return err
	}
	if s.cfg.Metrics != "" {
		s.metrics = newMetrics(s)
	}
	if s.cfg.HTTP == "" {
		return nil
	}
	gateway, err := newJSONPort(s)
	s.gateway = gateway
	return err
}

// A connection must stay open while it is idle. Clients ping about every 10 s, even without a running call. With gRPC's
// defaults the server would disconnect them at the third ping.
var (
	enforcement = keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}
	pings       = keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}
)

// headerBytes limits the size of the headers of a call, in bytes. They contain a token and perhaps
// trace context. gRPC's own limit is 16 MiB. handshakeTimeout is how long a client may take to connect.
const (
	headerBytes      = 64 << 10
	handshakeTimeout = 10 * time.Second
)

// transport returns the gRPC options for the sizes of messages and streams, for keepalive and for
// encryption.
func (s *Server) transport() []grpc.ServerOption {
	return []grpc.ServerOption{
		// If a message has at most twice the limit, the codec refuses it with a reason. gRPC itself
		// refuses larger messages.
		grpc.MaxRecvMsgSize(2 * s.cfg.MaxMessageBytes),
		grpc.UnknownServiceHandler(unknownMethod),
		grpc.MaxSendMsgSize(sendMessageBytes),
		grpc.MaxHeaderListSize(headerBytes), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(enforcement),
		grpc.KeepaliveParams(pings),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow),
		grpc.ForceServerCodecV2(codec.NewCodec(s.cfg.MaxMessageBytes)),
		grpc.Creds(auth.NewTransportCredentials(s.keys.Config(), limitResets)),
		grpc.MaxConcurrentStreams(s.cfg.connectionStreams()),
	}
}

// bind binds all addresses of the server. If one fails, the caller closes the bound ones.
func (s *Server) bind() (err error) {
	open := s.cfg.open()
	if s.cfg.Listen != "" {
		if s.tcp, err = auth.ListenTCP("listen", s.cfg.Listen, open); err != nil {
			return err
		}
	}
	if s.cfg.Socket != "" {
		if s.unix, err = auth.ListenUnix(s.cfg.Socket); err != nil {
			return err
		}
	}
	web := s.keys.Config("h2", "http/1.1")
	if s.gateway != nil {
		if err = s.gateway.bind("http", s.cfg.HTTP, open, web); err != nil {
			return err
		}
	}
	if s.metrics != nil {
		return s.metrics.bind("metrics", s.cfg.Metrics, open, web)
	}
	return nil
}

// release closes the listeners after New has failed.
func (s *Server) release() error {
	errs := []error{s.local.Close()}
	for _, ln := range []net.Listener{s.tcp, s.unix} {
		if ln != nil {
			errs = append(errs, ln.Close())
		}
	}
	return errors.Join(append(errs, s.closeHTTP())...)
}

// Addr returns the bound address of the gRPC port, or "".
func (s *Server) Addr() string { return addrOf(s.tcp) }

// HTTPAddr returns the bound address of the gateway, or "".
func (s *Server) HTTPAddr() string {
	if s.gateway == nil {
		return ""
	}
	return addrOf(s.gateway.listener)
}

// MetricsAddr returns the bound address of the metrics, or "".
func (s *Server) MetricsAddr() string {
	if s.metrics == nil {
		return ""
	}
	return addrOf(s.metrics.listener)
}

func addrOf(ln net.Listener) string {
	if ln == nil {
		return ""
	}
	return ln.Addr().String()
}

// Serve reports SERVING and serves until [Server.Shutdown] is called. Then it returns nil. On a server with a router,
// [Server.Ready] reports SERVING instead. If a listener fails before that, it returns the error.
func (s *Server) Serve() error {
	served := make(chan error, 5)
	running := 0
	serve := func(run func() error) {
		running++
		go func() { served <- run() }()
	}
	for _, ln := range []net.Listener{s.tcp, s.unix, s.local} {
		if ln != nil {
			serve(func() error { return s.grpc.Serve(ln) })
		}
	}
	if s.gateway != nil {
		serve(s.gateway.serve)
	}
	if s.metrics != nil {
		serve(s.metrics.serve)
	}
	if s.cfg.Runtime != nil {
		s.health.serve(s.cfg.Failed, s.draining)
	}
	var first error
	for range running {
		if err := <-served; err != nil && first == nil && !s.isDraining() {
			first = fmt.Errorf("grpcapi: serve: %w", err)
			s.stop()
		}
	}
	return first
}

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// streamGrace is how long streams may take to end after all other calls are answered. Readers resume at
// another server with their last cursor. A reader that does not read must not delay the end.
const streamGrace = time.Second

// Shutdown reports NOT_SERVING, ends streams with UNAVAILABLE(DRAINING), waits for running calls and stops
// the server. If ctx ends first, it aborts the calls and returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.gateway != nil {
			s.gateway.shutdown(ctx)
		}
		if s.metrics != nil {
			s.metrics.shutdown(ctx)
		}
		s.grpc.GracefulStop()
	}()
	// GracefulStop waits for handlers even after Stop. Shutdown does not wait for GracefulStop, because
	// a handler may be blocked in a commit.
	select {
	case <-done:
		return nil
	case <-s.answered(ctx):
		s.stop()
		return nil
	case <-ctx.Done():
		s.stop()
		return ctx.Err()
	}
}

// answered returns a channel. The channel is closed when no unary call is running and the grace period
// of streams has passed. If ctx ends before that, the channel is never closed.
func (s *Server) answered(ctx context.Context) <-chan struct{} {
	answered := make(chan struct{})
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for s.edge.calls.Load() > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		grace := time.NewTimer(streamGrace)
		defer grace.Stop()
		select {
		case <-grace.C:
			close(answered)
		case <-ctx.Done():
		}
	}()
	return answered
}

// drain begins the end of the server. It reports NOT_SERVING and ends streams. It may be called more
// than once.
func (s *Server) drain() {
	s.drainOnce.Do(func() {
		s.health.stop()
		close(s.draining)
		s.ownServices.End()
	})
}

// stop aborts everything.
func (s *Server) stop() {
	s.drain()
	_ = s.closeHTTP()
	s.grpc.Stop()
}

// closeHTTP aborts all HTTP requests and closes the HTTP listeners.
func (s *Server) closeHTTP() error {
	var errs []error
	if s.gateway != nil {
		errs = append(errs, s.gateway.close())
	}
	if s.metrics != nil {
		errs = append(errs, s.metrics.close())
	}
	return errors.Join(errs...)
}

// Dial returns an in-process connection to this server. Its calls pass the same interceptors as all
// other calls and also need tokens. The caller must close the connection.
func (s *Server) Dial(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	dialer := func(ctx context.Context, _ string) (net.Conn, error) { return s.Pipe(ctx) }
	return grpc.NewClient("passthrough:///pawl", append([]grpc.DialOption{
		grpc.WithContextDialer(dialer),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(sendMessageBytes)),
		// The windows are fixed, so that events that a slow reader has not read stay in the store and
		// not in memory.
		grpc.WithInitialWindowSize(64 << 10), grpc.WithInitialConnWindowSize(1 << 20),
	}, options...)...)
}

// Pipe opens the in-process transport of one connection, see [Server.Dial].
func (s *Server) Pipe(ctx context.Context) (net.Conn, error) { return s.local.DialContext(ctx) }
