package grpcapi

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serviceTable is a table of services by name. It calls their implementations without a server: a call
// through it calls the handler directly, with the same request. All services must be added before the first
// call.
type serviceTable struct {
	descs   []*grpc.ServiceDesc
	impls   map[string]any
	unary   map[string]grpc.MethodHandler
	streams map[string]grpc.StreamHandler
}

// newServiceTable returns an empty serviceTable.
func newServiceTable() *serviceTable {
	return &serviceTable{impls: map[string]any{}, unary: map[string]grpc.MethodHandler{}, streams: map[string]grpc.StreamHandler{}}
}

// Add adds a service with its implementation.
func (b *serviceTable) Add(desc *grpc.ServiceDesc, impl any) {
	b.descs = append(b.descs, desc)
	b.impls[desc.ServiceName] = impl
	for i := range desc.Methods {
		b.unary[methodName(desc, desc.Methods[i].MethodName)] = desc.Methods[i].Handler
	}
	for i := range desc.Streams {
		b.streams[methodName(desc, desc.Streams[i].StreamName)] = desc.Streams[i].Handler
	}
}

func methodName(desc *grpc.ServiceDesc, method string) string {
	return "/" + desc.ServiceName + "/" + method
}

// HasMethod reports whether a service has the method.
func (b *serviceTable) HasMethod(method string) bool {
	return b.unary[method] != nil || b.streams[method] != nil
}

// Descs returns the services in the order in which they were added.
func (b *serviceTable) Descs() []*grpc.ServiceDesc { return slices.Clone(b.descs) }

// Implementation returns the implementation of a service.
func (b *serviceTable) Implementation(desc *grpc.ServiceDesc) any { return b.impls[desc.ServiceName] }

// Call calls a unary method with its request. method is the full gRPC name.
func (b *serviceTable) Call(ctx context.Context, method string, req any) (any, error) {
	handler, ok := b.unary[method]
	if !ok {
		return nil, noSuchMethod(method)
	}
	// The generated handler decodes a request and calls an interceptor. Here it decodes nothing, and
	// the interceptor calls the implementation with the real request.
	return handler(b.implOf(method), ctx, func(any) error { return nil }, func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, call grpc.UnaryHandler) (any, error) {
		return call(ctx, req)
	})
}

// Stream calls a streaming method. method is the full gRPC name.
func (b *serviceTable) Stream(method string, stream grpc.ServerStream) error {
	handler, ok := b.streams[method]
	if !ok {
		return noSuchMethod(method)
	}
	return handler(b.implOf(method), stream)
}

func (b *serviceTable) implOf(method string) any {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return b.impls[service]
}

func noSuchMethod(method string) error {
	return status.Error(codes.Unimplemented, "no service has the method "+method)
}
