package calllimit

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Limiter limits calls for each principal and each namespace. Its errors contain a RetryInfo with the
// time after which the caller may try again. The interceptor of the middleware library cannot do this.
type Limiter struct {
	// book contains the quotas. perSecond is the limit for principals without a quota. 0 means that
	// there is no limit.
	book      *quota.Limits
	perSecond float64
}

// New returns a Limiter with the quotas of book. perSecond is the number of calls per second for
// principals without a quota.
func New(perSecond float64, book *quota.Limits) *Limiter {
	return &Limiter{book: book, perSecond: perSecond}
}

// Admit takes one call from the quota of the caller and one from the quota of the namespace. If one of
// the quotas is used up, it takes none. It ignores the namespace "".
func (l *Limiter) Admit(ctx context.Context, namespace string) error {
	entered, err := l.Enter(ctx)
	if err == nil {
		err = l.OfSpace(entered, namespace)
	}
	return err
}

// backKey is the context key of the function that returns the call to the caller's quota.
type backKey struct{}

// Enter takes one call from the quota of the caller. It is used if the namespace of the call is not
// known yet. When the namespace is known, [Limiter.OfSpace] must be called once, with the returned
// context.
func (l *Limiter) Enter(ctx context.Context) (context.Context, error) {
	caller := quota.Principal(auth.CallerOf(ctx).Speaker())
	back, err := l.book.SpendElse(caller, quota.Calls, l.perSecond, time.Now())
	if err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, backKey{}, back), nil
}

// OfSpace takes one call from the quota of a namespace. If this quota is used up, OfSpace returns the
// call to the caller's quota. It ignores the namespace "".
func (l *Limiter) OfSpace(ctx context.Context, namespace string) error {
	if namespace == "" {
		return nil
	}
	_, err := l.book.Spend(quota.Namespace(namespace), quota.Calls, time.Now())
	if back, ok := ctx.Value(backKey{}).(func()); ok && err != nil {
		back()
	}
	return err
}

// Unary is [Limiter.Admit] for unary calls.
func (l *Limiter) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := l.Admit(ctx, auth.SpaceOf(ctx, req)); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream counts a stream as one call. It takes the call from the caller's quota before the stream
// begins, and from the namespace's quota when the first message names the namespace.
func (l *Limiter) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	entered, err := l.Enter(stream.Context())
	if err != nil {
		return err
	}
	return next(srv, &firstOf{ServerStream: stream, entered: entered, limit: l})
}

// firstOf is a stream. When its first message arrives, the stream is counted in the quota of the
// namespace of the message.
type firstOf struct {
	grpc.ServerStream
	entered context.Context //nolint:containedctx // that of the stream, with what its caller spent
	limit   *Limiter
	counted bool
}

// RecvMsg implements grpc.ServerStream.
func (s *firstOf) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || s.counted {
		return err
	}
	s.counted = true
	return s.limit.OfSpace(s.entered, auth.SpaceOf(s.Context(), m))
}
