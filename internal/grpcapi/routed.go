package grpcapi

import (
	"context"
	"net/http"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
)

// Router takes calls to the services that execute them. The caller was authenticated, the
// limits and the constraints were checked.
type Router interface {
	// Unary may answer with [sent.Message], the bytes of an answer.
	Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error)
	// Stream ends when the context of the stream does.
	Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error
	// ServeHTTP takes the requests of the guest.
	http.Handler
}

// routed is the last interceptor of a server with a router. It checks another process's answers
// against the rights of the caller here.
type routed struct {
	s *Server
}

// here reports whether this server itself answers a method: health and similar ones.
func (r *routed) here(method string) bool { return !r.s.own.board.Has(method) }

func (r *routed) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if r.here(info.FullMethod) {
		return next(ctx, req)
	}
	who, rights := auth.CallerOf(ctx), r.s.auth.Current.Load()
	ctx, over := auth.Lasting(ctx, who)
	defer over()
	got, err := r.s.cfg.Router.Unary(ctx, req, info, next)
	if err != nil {
		return nil, streamEnd(ctx, err)
	}
	// A wait may have been longer than its caller's right to the answer. What was changed was.
	if r.s.auth.Current.Load() != rights && !r.s.auth.Operations[info.FullMethod].Changes {
		if err := r.s.auth.Recheck(who, info.FullMethod); err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (r *routed) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if r.here(info.FullMethod) {
		return next(srv, stream)
	}
	who, auth := auth.CallerOf(stream.Context()), r.s.auth
	ctx, end := kept(stream.Context(), auth, r.s.draining, func() error { return auth.Recheck(who, info.FullMethod) })
	defer end()
	return streamEnd(ctx, r.s.cfg.Router.Stream(srv, &keptStream{stream, ctx}, info, next))
}

// keptStream is a stream with a context of its own.
type keptStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

// Context implements grpc.ServerStream.
func (s *keptStream) Context() context.Context { return s.ctx }

// Known is the part of [Server.Admit] that a server with a router does itself: authentication
// and limits. The request is read where it is answered.
func (s *Server) Known(r *http.Request) (context.Context, error) {
	ctx, p, err := s.identify(r)
	if err == nil {
		ctx, err = s.limit.Enter(auth.WithCaller(ctx, p))
	}
	s.refused(ctx, methodHTTP, p, err)
	return ctx, err
}

// Elsewhere has requests over HTTP answered by the services that the router finds, with the
// caller of the context, and ends them when that loses a right or the server drains.
func (s *Server) Elsewhere() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := auth.CallerOf(r.Context())
		ctx, end := kept(r.Context(), s.auth, s.draining, func() error { return s.auth.Still(who) })
		defer end()
		s.cfg.Router.ServeHTTP(w, r.WithContext(ctx))
	})
}

// routedServices are the names of what the router finds.
func (s *Server) routedServices() *Services {
	o := s.newServices(ServiceConfig{})
	o.board.Add(&pawlv1.PackService_ServiceDesc, pawlv1.UnimplementedPackServiceServer{})
	o.board.Add(&pawlv1.RunService_ServiceDesc, pawlv1.UnimplementedRunServiceServer{})
	o.board.Add(&pawlv1.ControlService_ServiceDesc, pawlv1.UnimplementedControlServiceServer{})
	o.board.Add(&pawlv1.DeliveryService_ServiceDesc, pawlv1.UnimplementedDeliveryServiceServer{})
	o.board.Add(&pawlv1.StoreService_ServiceDesc, pawlv1.UnimplementedStoreServiceServer{})
	o.board.Add(&pawlv1.WorkerService_ServiceDesc, pawlv1.UnimplementedWorkerServiceServer{})
	return o
}
