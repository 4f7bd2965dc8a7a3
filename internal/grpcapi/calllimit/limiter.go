package calllimit

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Limiter admits calls per principal and per namespace. The ready-made interceptor of the
// middleware library cannot say when to come back, which RetryInfo does.
type Limiter struct {
	// book has the quotas; perSecond is for principals without one, 0 = no limit.
	book      *quota.Limits
	perSecond float64
}

// New admits perSecond calls of each principal, 0 = any number, and what the book says.
func New(perSecond float64, book *quota.Limits) *Limiter {
	return &Limiter{book: book, perSecond: perSecond}
}

// Admit takes one call from the allowance of its caller and, unless that is "", of the
// namespace that it is about: of both or of none.
func (l *Limiter) Admit(ctx context.Context, namespace string) error {
	entered, err := l.Enter(ctx)
	if err == nil {
		err = l.OfSpace(entered, namespace)
	}
	return err
}

// backKey finds what gives the call of a caller back.
type backKey struct{}

// Enter is [Limiter.Admit] for a call that has not said yet which namespace it is about;
// [Limiter.OfSpace] is the rest, once, with the context from here.
func (l *Limiter) Enter(ctx context.Context) (context.Context, error) {
	caller := quota.Principal(auth.CallerOf(ctx).Speaker())
	back, err := l.book.SpendElse(caller, quota.Calls, l.perSecond, time.Now())
	if err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, backKey{}, back), nil
}

// OfSpace takes one call from the allowance of a namespace, "" = of none; where that refuses it,
// the caller's own is given back.
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

// Stream is [Limiter.Admit] for a stream as a whole: for its caller before it has said
// anything, for its namespace when its first message names it.
func (l *Limiter) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	entered, err := l.Enter(stream.Context())
	if err != nil {
		return err
	}
	return next(srv, &firstOf{ServerStream: stream, entered: entered, limit: l})
}

// firstOf is a stream whose first message has not been counted.
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
