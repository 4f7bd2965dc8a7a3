package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	peerinfo "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These are the limits of the port for other nodes. Messages between nodes may be as large as those
// that clients may send and receive.
const (
	messageBytes = 64 << 20
	headerBytes  = 64 << 10
	// The flow control windows are small. So data that a slow reader has not read stays in the store
	// and not in memory.
	streamWindow     = 64 << 10
	connectionWindow = 4 << 20
	headerTime       = 10 * time.Second
	// streamWorkers is the number of goroutines that handle calls. They are reused, so that
	// their stacks do not have to grow again.
	streamWorkers = 64
)

// Config configures a [Server].
type Config struct {
	// Listen is the address HOST:PORT.
	Listen   string
	Identity Identity
	// TrustStore knows the certificates of the nodes.
	TrustStore TrustStore
	Router     *router.Router
	// OnNotify is called when another node requests that this node reads the rows of the cluster now.
	// It may be nil.
	OnNotify func()
	// Log receives errors that callers must not see. Default: the log is discarded.
	Log *slog.Logger
}

// Server is the port on which a node accepts calls of other nodes.
type Server struct {
	cfg      Config
	acceptor *acceptor
	grpc     *grpc.Server
	http     *http.Server
}

// NewServer opens the port. The server accepts connections after [Server.Serve] was called.
func NewServer(cfg Config) (*Server, error) {
	if cfg.OnNotify == nil {
		cfg.OnNotify = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	s := &Server{cfg: cfg, acceptor: newAcceptor(ln, cfg.Identity.config(cfg.TrustStore.KnowsKey, protoGRPC, protoHTTP))}
	s.grpc = s.newGRPC()
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serveHTTP), ReadHeaderTimeout: headerTime, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug), ConnContext: withNode,
	}
	return s, nil
}

// newGRPC returns the gRPC server for calls from other nodes.
func (s *Server) newGRPC() *grpc.Server {
	safe := recovery.WithRecoveryHandlerContext(s.recovered)
	server := grpc.NewServer(
		grpc.Creds(verifiedCreds{insecure.NewCredentials()}), grpc.MaxRecvMsgSize(messageBytes), grpc.MaxSendMsgSize(messageBytes), grpc.MaxHeaderListSize(headerBytes),
		grpc.ForceServerCodecV2(codec.NewCodec(0)), grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.UnknownServiceHandler(s.unknown),
		grpc.ChainUnaryInterceptor(recovery.UnaryServerInterceptor(safe), s.unary), grpc.ChainStreamInterceptor(recovery.StreamServerInterceptor(safe), s.stream),
	)
	for _, desc := range router.Services {
		// The services have no implementation, because the interceptors answer all calls.
		codec.Register(server, desc, nil)
	}
	server.RegisterService(&notifyService, s)
	return server
}

// Addr returns the bound address.
func (s *Server) Addr() string { return s.acceptor.Addr().String() }

// Serve accepts calls until [Server.Shutdown] or [Server.Stop]. If one part of the server fails, Serve stops all
// parts and returns the error.
func (s *Server) Serve() error {
	served := make(chan error, 3)
	go func() { served <- s.acceptor.serve() }()
	go func() { served <- s.grpc.Serve(s.acceptor.grpc) }()
	go func() { served <- s.http.Serve(s.acceptor.http) }()
	var errs []error
	for range cap(served) {
		switch err := <-served; {
		case err == nil, errors.Is(err, http.ErrServerClosed), errors.Is(err, grpc.ErrServerStopped), errors.Is(err, net.ErrClosed):
			// The part was stopped.
		default:
			errs = append(errs, err)
			s.Stop()
		}
	}
	return errors.Join(errs...)
}

// Shutdown stops accepting calls and waits for the running calls. When ctx ends, it aborts the calls
// that are still running.
func (s *Server) Shutdown(ctx context.Context) {
	_ = s.acceptor.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.http.Shutdown(ctx)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.Stop()
}

// Stop closes the port and aborts all calls.
func (s *Server) Stop() {
	_ = s.acceptor.Close()
	s.acceptor.end()
	_ = s.http.Close()
	s.grpc.Stop()
}

// unary executes a unary call from another node in the partition that the call names.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx); err != nil {
		return nil, s.status(ctx, info.FullMethod, err)
	}
	if router.MethodOf(info.FullMethod) == nil {
		return next(ctx, req)
	}
	ctx, part, err := incoming(ctx)
	if err != nil {
		return nil, s.status(ctx, info.FullMethod, err)
	}
	resp, err := s.cfg.Router.Local(ctx, part, info.FullMethod, req)
	if err != nil {
		return nil, s.status(ctx, info.FullMethod, err)
	}
	return resp, nil
}

// stream executes a streaming call from another node in the partition that the call names.
func (s *Server) stream(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	err := s.admit(stream.Context())
	if err == nil && router.MethodOf(info.FullMethod) == nil {
		err = unknown(info.FullMethod)
	}
	if err == nil {
		var ctx context.Context
		var part int32
		if ctx, part, err = incoming(stream.Context()); err == nil {
			err = s.cfg.Router.LocalStream(part, info.FullMethod, codec.NewStream(&contextStream{stream, ctx}))
		}
	}
	if err != nil {
		return s.status(stream.Context(), info.FullMethod, err)
	}
	return nil
}

// unknown is the gRPC handler for methods that this version does not have. It is never reached, because
// the stream interceptor answers these calls.
func (s *Server) unknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	return unknown(method)
}

// unknown returns the error for a method that only a newer version has. The call was not begun. Another
// node cannot execute it either while this node owns the partition.
func unknown(method string) error {
	return apierror.With(status.New(codes.Unimplemented, "the node that has the store is of an older version, which does not know "+method+"; call again when all nodes are upgraded"),
		&errdetails.ErrorInfo{Domain: apierror.Domain, Reason: "OPERATION_UNKNOWN", Metadata: map[string]string{"operation": method}}).Err()
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

func (w *contextStream) Context() context.Context { return w.ctx }

// admit checks for each call that the calling node is still in the cluster. The node's row may have
// been removed after its connection was opened.
func (s *Server) admit(ctx context.Context) error {
	from, ok := peerinfo.FromContext(ctx)
	if ok {
		if node, ok := from.AuthInfo.(nodeInfo); ok && s.cfg.TrustStore.KnowsKey(node.key) {
			return nil
		}
	}
	return unknownPeer()
}

func unknownPeer() error {
	return &machine.Error{Code: machine.CodeUnavailable, Reason: router.PeerUnknown, RetryAfter: int64(time.Second), Message: "the node that asks has no row in the cluster any more"}
}

type nodeKey struct{}

// withNode stores in ctx the node that opened an HTTP connection.
func withNode(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		if key, ok := keyOf(secure.ConnectionState()); ok {
			return context.WithValue(ctx, nodeKey{}, key)
		}
	}
	return ctx
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	key, ok := r.Context().Value(nodeKey{}).([32]byte)
	if !ok || !s.cfg.TrustStore.KnowsKey(key) {
		w.Header().Set(router.RefusedHeader, router.PeerUnknown)
		w.WriteHeader(http.StatusMisdirectedRequest)
		return
	}
	in, part, err := incomingHTTP(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.cfg.Router.LocalHTTP(part, w, in)
}

// status converts an error for the calling node, which returns it to its own caller. It logs errors
// with internal details and hides them from callers.
func (s *Server) status(ctx context.Context, method string, err error) error {
	st, withheld := apierror.Status(err)
	if withheld != nil {
		s.cfg.Log.ErrorContext(ctx, "call failed", "method", method, "correlation_id", withheld.ID, "error", withheld.Cause)
	}
	return st.Err()
}

func (s *Server) recovered(ctx context.Context, cause any) error {
	method, _ := grpc.Method(ctx)
	withheld := apierror.Withhold(fmt.Errorf("panic: %v", cause))
	s.cfg.Log.ErrorContext(ctx, "call panicked", "method", method, "correlation_id", withheld.ID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	st, _ := apierror.Hidden(withheld)
	return st.Err()
}

// notifyService is the only service that the port itself implements. Its method makes this node read
// the rows of the cluster now.
var notifyService = grpc.ServiceDesc{
	ServiceName: "pawl.cluster.Nudges", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Nudge", Handler: handleNotify}},
}

const notifyMethod = "/pawl.cluster.Nudges/Nudge"

func handleNotify(srv any, ctx context.Context, //nolint:revive // as gRPC wants it
	decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	in := &emptypb.Empty{}
	if err := decode(in); err != nil {
		return nil, err
	}
	return intercept(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: notifyMethod}, func(context.Context, any) (any, error) {
		srv.(*Server).cfg.OnNotify()
		return &emptypb.Empty{}, nil
	})
}
