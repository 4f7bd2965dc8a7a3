package calllimit

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Limiter limits calls per principal and per namespace. The interceptor of the middleware library cannot
// tell the caller when to try again; RetryInfo in the errors of Limiter does.
type Limiter struct {
	// book has the quotas. perSecond is the limit for principals without a quota; 0 means no limit.
	book      *quota.Limits
	perSecond float64
}

// New returns a Limiter with the quotas of book, and perSecond calls for principals without a quota.
func New(perSecond float64, book *quota.Limits) *Limiter {
	return &Limiter{book: book, perSecond: perSecond}
}

// Admit takes one call from the quota of the caller and one from that of the namespace, or none at all
// if one of them refuses. It ignores the namespace "".
func (l *Limiter) Admit(ctx context.Context, namespace string) error {
	entered, err := l.Enter(ctx)
	if err == nil {
		err = l.OfSpace(entered, namespace)
	}
	return err
}

// backKey is the context key of the function that gives the caller's call back.
type backKey struct{}

// Enter takes one call from the quota of the caller, if the namespace of the call is not known yet. Call
// [Limiter.OfSpace] once afterwards, with the returned context.
func (l *Limiter) Enter(ctx context.Context) (context.Context, error) {
	caller := quota.Principal(auth.CallerOf(ctx).Speaker())
	back, err := l.book.SpendElse(caller, quota.Calls, l.perSecond, time.Now())
	if err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, backKey{}, back), nil
}

// OfSpace takes one call from the quota of a namespace. If that refuses, the caller's call is given back.
// It ignores the namespace "".
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

// Stream limits a stream as a whole: the caller's quota before the stream begins, the namespace's quota
// when the first message names the namespace.
func (l *Limiter) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	entered, err := l.Enter(stream.Context())
	if err != nil {
		return err
	}
	return next(srv, &firstOf{ServerStream: stream, entered: entered, limit: l})
}

// firstOf is a stream whose first message is counted in the quota of its namespace.
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
