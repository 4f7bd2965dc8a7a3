package grpcapi

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/dispatch"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/tally"
	"github.com/pawl-dev/pawl/internal/runtime/admission"
)

// Router takes calls to the services of the house that answers them. Who calls was found out,
// that it is not too much, and that the request keeps its constraints.
type Router interface {
	// Unary may answer with [sent.Message], the bytes of an answer.
	Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error)
	// Stream ends when the context of the stream does.
	Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error
	// ServeHTTP takes the requests of the guest.
	http.Handler
}

// routed is the last interceptor of a server with a router. What another process answers is
// held here to the rights of who called here.
type routed struct {
	s *Server
	// decodes: what comes as bytes is given on as the message that it is.
	decodes bool
}

// here: a method is answered by this server, of whichever house: health and the like, and
// Drive, whose commands are calls of their own and go to the router one by one. Its stream
// outlives the house that way.
func (r *routed) here(method string) bool {
	return method == pawlv1.RunService_Drive_FullMethodName || !r.s.own.board.Has(method)
}

func (r *routed) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if r.here(info.FullMethod) {
		return next(ctx, req)
	}
	who, rights := door.CallerOf(ctx), r.s.auth.Current.Load()
	ctx, over := door.Lasting(ctx, who)
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
	if r.decodes {
		return dispatch.Decoded(info.FullMethod, got)
	}
	return got, nil
}

func (r *routed) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if r.here(info.FullMethod) {
		return next(srv, stream)
	}
	who, auth := door.CallerOf(stream.Context()), r.s.auth
	ctx, end := kept(stream.Context(), auth, r.s.draining, func() error { return auth.Recheck(who, info.FullMethod) })
	defer end()
	return streamEnd(ctx, r.s.cfg.Router.Stream(srv, &keptStream{stream, ctx}, info, next))
}

// keptStream is a stream whose context is kept.
type keptStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

// Context implements grpc.ServerStream.
func (s *keptStream) Context() context.Context { return s.ctx }

// Known is [Server.Admit] as far as a server with a router does it itself: who calls, and
// whether it is too much. What is asked for is read where it is answered.
func (s *Server) Known(r *http.Request) (context.Context, error) {
	ctx, p, err := s.identify(r)
	if err == nil {
		ctx, err = s.limit.Enter(door.WithCaller(ctx, p))
	}
	s.refused(ctx, tally.HTTP, p, err)
	return ctx, err
}

// Elsewhere has requests over HTTP answered by the services that the router finds, with the
// caller of the context, and ends them when that loses a right or the server drains.
func (s *Server) Elsewhere() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := door.CallerOf(r.Context())
		ctx, end := kept(r.Context(), s.auth, s.draining, func() error { return s.auth.Still(who) })
		defer end()
		s.cfg.Router.ServeHTTP(w, r.WithContext(ctx))
	})
}

// routedServices are the names of what the router finds, and Drive.
func (s *Server) routedServices() *Services {
	o := s.newServices(Offer{})
	o.runs = &runService{auth: s.auth, draining: o.ends.Done(), streams: s.streams, tally: s.edge.tally}
	o.runs.commands = s.newCommander(pawlv1.UnimplementedRunServiceServer{})
	o.runs.commands.guard = append(o.runs.commands.guard, apart, (&routed{s: s, decodes: true}).unary)
	o.board.Add(&pawlv1.PackService_ServiceDesc, pawlv1.UnimplementedPackServiceServer{})
	o.board.Add(&pawlv1.RunService_ServiceDesc, driveAlone{runs: o.runs})
	o.board.Add(&pawlv1.ControlService_ServiceDesc, pawlv1.UnimplementedControlServiceServer{})
	o.board.Add(&pawlv1.DeliveryService_ServiceDesc, pawlv1.UnimplementedDeliveryServiceServer{})
	o.board.Add(&pawlv1.StoreService_ServiceDesc, pawlv1.UnimplementedStoreServiceServer{})
	o.board.Add(&pawlv1.WorkerService_ServiceDesc, pawlv1.UnimplementedWorkerServiceServer{})
	return o
}

// parkAfter is how long a command of Drive may be elsewhere before others have its room: it may
// wait for the operator's limits there, which those others give back.
const parkAfter = 100 * time.Millisecond

// apart has a command of Drive be a call of its own also in what it says beside its answer,
// which its stream would otherwise gather up to its end.
func apart(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, over := admission.Lasting(ctx, parkAfter)
	defer over()
	return next(grpc.NewContextWithServerTransportStream(ctx, aside(info.FullMethod)), req)
}

// aside is the call of a method whose headers and trailers nobody gets.
type aside string

func (a aside) Method() string               { return string(a) }
func (a aside) SetHeader(metadata.MD) error  { return nil }
func (a aside) SendHeader(metadata.MD) error { return nil }
func (a aside) SetTrailer(metadata.MD) error { return nil }

// driveAlone is RunService without a house.
type driveAlone struct {
	pawlv1.UnimplementedRunServiceServer
	runs *runService
}

// Drive implements pawl.v1.RunService.
func (d driveAlone) Drive(stream driveServer) error { return d.runs.Drive(stream) }
