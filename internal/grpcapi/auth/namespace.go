package auth

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// named is what every request has that is of a namespace.
type named interface{ GetNamespace() string }

// tenanted is what every request to an agent has.
type tenanted interface{ GetTenant() string }

// namespaceOf is the namespace that a request names, "" = its caller's own; false: it is of
// none.
func namespaceOf(req any) (string, bool) {
	switch in := req.(type) {
	case named:
		return in.GetNamespace(), true
	case tenanted:
		namespace, _ := validate.SplitTenant(in.GetTenant())
		return namespace, true
	}
	return "", false
}

// CheckNamespace refuses a request of a namespace to which its caller has no right. It is the
// first check of a request, so that no other answer reveals whether the namespace exists, or
// its contents. The engine checks the same again.
func CheckNamespace(p *Caller, req any) error {
	namespace, _ := namespaceOf(req)
	if namespace == "" || p.In(namespace) {
		return nil
	}
	return validate.NotServed(namespace, p.Namespaces)
}

// SpaceOf is the namespace that a request is about; "" = it is about none.
func SpaceOf(ctx context.Context, req any) string {
	namespace, ok := namespaceOf(req)
	if !ok {
		return ""
	}
	return cmp.Or(namespace, CallerNamespace(ctx))
}

// CallerNamespace is the namespace of a caller's requests that name none.
func CallerNamespace(ctx context.Context) string {
	return cmp.Or(CallerOf(ctx).DefaultNamespace(), runtime.DefaultNamespace)
}

// Spaces are the namespaces that exist for a caller, of those that are served: first what its calls
// mean that name none. What it is kept to and is not served is none.
func (p *Caller) Spaces(served []string) []string {
	if p.Bound() {
		return slices.DeleteFunc(slices.Clone(p.Namespaces), func(name string) bool { return !slices.Contains(served, name) })
	}
	others := slices.DeleteFunc(slices.Clone(served), func(name string) bool { return name == runtime.DefaultNamespace })
	return append([]string{runtime.DefaultNamespace}, others...)
}

// inSpace judges an operation that is of no namespace that a request could name.
func inSpace(p *Caller, op runtime.Operation) error {
	if op.Space != policy.SpaceAll || !p.Bound() {
		return nil
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "NAMESPACE_BOUND",
		Message: "this is of all namespaces together; principal " + p.Name() + " is kept to some",
	}
}

// lost reports whether a principal may no longer be where it was, or is somewhere else when
// it names no namespace.
func lost(was, is runtime.Principal) bool {
	return was.DefaultNamespace() != is.DefaultNamespace() || is.Bound() && (!was.Bound() || slices.ContainsFunc(was.Namespaces, func(name string) bool { return !is.In(name) }))
}

// UnaryCheckNamespace is [CheckNamespace] for unary calls.
func UnaryCheckNamespace(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := CheckNamespace(CallerOf(ctx), req); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// StreamCheckNamespace is [CheckNamespace] for each message of a stream.
func StreamCheckNamespace(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if p := CallerOf(stream.Context()); p.Bound() {
		stream = &boundStream{ServerStream: stream, caller: p}
	}
	return next(srv, stream)
}

// boundStream is the stream of a caller that is kept to some namespaces.
type boundStream struct {
	grpc.ServerStream
	caller *Caller
}

// RecvMsg implements grpc.ServerStream.
func (s *boundStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return CheckNamespace(s.caller, m)
}
