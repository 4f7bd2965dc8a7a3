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

// named is implemented by every request that belongs to a namespace.
type named interface{ GetNamespace() string }

// tenanted is implemented by every A2A request.
type tenanted interface{ GetTenant() string }

// namespaceOf returns the namespace that a request names. "" means the caller's own namespace. It
// returns false if the request belongs to no namespace.
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

// CheckNamespace returns an error if the caller has no right to the namespace of a request. It is the
// first check of a request. So no other answer reveals whether the namespace exists or what it
// contains. The engine makes the same check again.
func CheckNamespace(p *Caller, req any) error {
	namespace, _ := namespaceOf(req)
	if namespace == "" || p.In(namespace) {
		return nil
	}
	return validate.NotServed(namespace, p.Namespaces)
}

// SpaceOf returns the namespace that a request belongs to. It returns "" if the request belongs to
// none.
func SpaceOf(ctx context.Context, req any) string {
	namespace, ok := namespaceOf(req)
	if !ok {
		return ""
	}
	return cmp.Or(namespace, CallerNamespace(ctx))
}

// CallerNamespace returns the namespace that applies to a caller's requests if they do not name a
// namespace.
func CallerNamespace(ctx context.Context) string {
	return cmp.Or(CallerOf(ctx).DefaultNamespace(), runtime.DefaultNamespace)
}

// Spaces returns the served namespaces that the caller may use. The first one applies to requests that
// do not name a namespace. If the caller is restricted to namespaces that are not served, these are
// left out.
func (p *Caller) Spaces(served []string) []string {
	if p.Bound() {
		return slices.DeleteFunc(slices.Clone(p.Namespaces), func(name string) bool { return !slices.Contains(served, name) })
	}
	others := slices.DeleteFunc(slices.Clone(served), func(name string) bool { return name == runtime.DefaultNamespace })
	return append([]string{runtime.DefaultNamespace}, others...)
}

// inSpace returns an error if the operation concerns all namespaces but the caller is restricted to
// some of them.
func inSpace(p *Caller, op runtime.Operation) error {
	if op.Space != policy.SpaceAll || !p.Bound() {
		return nil
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "NAMESPACE_BOUND",
		Message: "this is of all namespaces together; principal " + p.Name() + " is kept to some",
	}
}

// lost reports whether a principal has lost a namespace, or has another namespace for requests that do
// not name one.
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

// StreamCheckNamespace applies [CheckNamespace] to each message of a stream.
func StreamCheckNamespace(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if p := CallerOf(stream.Context()); p.Bound() {
		stream = &boundStream{ServerStream: stream, caller: p}
	}
	return next(srv, stream)
}

// boundStream is the stream of a caller that is restricted to some namespaces.
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
