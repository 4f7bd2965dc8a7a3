package grpcapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
)

// Router sends calls to the services that execute them, in this process or in another one. Before the
// server calls the router, it has authenticated the caller and has checked the limits and the
// constraints.
type Router interface {
	// Unary makes a unary call. The answer may be a codec.Message, which contains the bytes of the
	// response.
	Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error)
	// Stream makes a streaming call. The call ends when the context of the stream ends.
	Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error
	// ServeHTTP serves the requests for the plugin ([Plugin.HTTP]).
	http.Handler
}

// routed is the last interceptor of a server with a router. It passes calls to the router. If the
// rights of the caller change while a call reads, routed checks them again before the answer is sent.
type routed struct {
	s *Server
}

// isLocal reports whether this server itself answers a method. An example is the health service.
func (r *routed) isLocal(method string) bool { return !r.s.ownServices.board.HasMethod(method) }

// unary passes a unary call to the router, which executes it at the owner of its partition. Calls that this server
// answers itself go on to next.
func (r *routed) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if r.isLocal(info.FullMethod) {
		return next(ctx, req)
	}
	who, rights := auth.CallerOf(ctx), r.s.auth.Current.Load()
	ctx, over := auth.StreamContext(ctx, who)
	defer over()
	got, err := r.s.cfg.Router.Unary(ctx, req, info, next)
	if err != nil {
		return nil, streamEnd(ctx, err)
	}
	// A read may wait for a long time, so the caller may have lost its right to the answer. The answer
	// to a change is always sent, because the change has been made.
	if r.s.auth.Current.Load() != rights && !r.s.auth.Operations[info.FullMethod].Changes {
		if err := r.s.auth.Recheck(who, info.FullMethod); err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (r *routed) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if r.isLocal(info.FullMethod) {
		return next(srv, stream)
	}
	who, auth := auth.CallerOf(stream.Context()), r.s.auth
	ctx, end := drainContext(stream.Context(), auth, r.s.draining, func() error { return auth.Recheck(who, info.FullMethod) })
	defer end()
	return streamEnd(ctx, r.s.cfg.Router.Stream(srv, &keptStream{stream, ctx}, info, next))
}

// keptStream is a stream with another context.
type keptStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

// Context implements grpc.ServerStream.
func (s *keptStream) Context() context.Context { return s.ctx }

// Known authenticates the caller of an HTTP request and applies the limit of the caller's calls, on a
// server with a router. The services that answer the request do the rest of [Server.Admit].
func (s *Server) Known(r *http.Request) (context.Context, error) {
	ctx, p, err := s.identify(r)
	if err == nil {
		ctx, err = s.limit.Enter(auth.WithCaller(ctx, p))
	}
	s.refused(ctx, methodHTTP, p, err)
	return ctx, err
}

// ForwardingHandler returns a handler that passes HTTP requests to the router. The context of a request
// contains the caller. A request ends if the caller loses a right or the server drains.
func (s *Server) ForwardingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := auth.CallerOf(r.Context())
		ctx, end := drainContext(r.Context(), s.auth, s.draining, func() error { return s.auth.CheckScopes(who) })
		defer end()
		s.cfg.Router.ServeHTTP(w, r.WithContext(ctx))
	})
}

// routedServices registers the names of the services that the router finds. It registers no
// implementations.
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

// decodedAnswer returns the answer of a method as a message. The answer of another node consists of encoded
// bytes. Most callers forward these bytes without decoding them.
func decodedAnswer(method string, answer any) (any, error) {
	raw, ok := answer.(codec.Message)
	if !ok {
		return answer, nil
	}
	out, err := answerOf(method)
	if err == nil {
		err = proto.Unmarshal(raw, out)
	}
	if err != nil {
		return nil, fmt.Errorf("the answer of %s that came from elsewhere: %w", method, err)
	}
	return out, nil
}

// answerOf returns an empty response of a method.
func answerOf(method string) (proto.Message, error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, err
	}
	desc, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no method", name)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(desc.Output().FullName())
	if err != nil {
		return nil, err
	}
	return kind.New().Interface(), nil
}
