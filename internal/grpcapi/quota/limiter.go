package quota

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/runtime/allowance"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxLimiters bounds the principals that are remembered at once. Forgetting one
// gives it a full burst again, nothing worse.
const maxLimiters = 10_000

// Limiter admits calls per principal and per namespace. The ready-made interceptor of the
// middleware library cannot say when to come back, which RetryInfo does.
type Limiter struct {
	// book says what the quotas are; perSecond is for principals of whom it says nothing,
	// 0 = no bound.
	book      *allowance.Book
	perSecond rate.Limit
	burst     int
	mu        sync.Mutex
	// buckets are those of the principals that called last.
	buckets *cache.LRU[string, *rate.Limiter]
}

// New admits perSecond calls of each principal, 0 = any number, and what the book says.
func New(perSecond float64, burst int, book *allowance.Book) *Limiter {
	return &Limiter{book: book, perSecond: rate.Limit(perSecond), burst: burst, buckets: cache.New[string, *rate.Limiter](maxLimiters)}
}

func (l *Limiter) bucket(name string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.buckets.Get(name); ok {
		return b
	}
	b := rate.NewLimiter(l.perSecond, l.burst)
	l.buckets.Put(name, b, 1)
	return b
}

// Admit takes one call from the allowance of its caller and, unless that is "", of the
// namespace that it is about: of both or of none.
func (l *Limiter) Admit(ctx context.Context, namespace string) error {
	name, now := door.CallerOf(ctx).Name, time.Now()
	back, err := l.ofCaller(name, now)
	if err != nil {
		return err
	}
	if err = l.OfSpace(namespace); err != nil {
		back()
	}
	return err
}

// OfSpace takes one call from the allowance of a namespace alone; "" = of none.
func (l *Limiter) OfSpace(namespace string) error {
	if namespace == "" {
		return nil
	}
	_, err := l.book.Spend(allowance.Namespace(namespace), allowance.Calls, time.Now())
	return err
}

// ofCaller takes one call of a principal.
func (l *Limiter) ofCaller(name string, now time.Time) (back func(), err error) {
	who := allowance.Principal(name)
	if l.perSecond == 0 || l.book.Most(who, allowance.Calls) > 0 {
		return l.book.Spend(who, allowance.Calls, now)
	}
	b := l.bucket(name)
	if b.AllowN(now, 1) {
		return func() { b.ReserveN(now, -1) }, nil
	}
	wait := time.Duration((1 - b.TokensAt(now)) / float64(l.perSecond) * float64(time.Second))
	return nil, &machine.Refusal{
		Code: machine.CodeResourceExhausted, Reason: "RATE_LIMITED", Quota: "principal." + string(allowance.Calls),
		Message: "too many requests of this principal", Limit: int64(l.perSecond), RetryAfter: int64(max(wait, time.Millisecond)),
	}
}

// Unary is [Limiter.Admit] for unary calls.
func (l *Limiter) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := l.Admit(ctx, door.SpaceOf(ctx, req)); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream is [Limiter.Admit] for a stream as a whole: for its caller before it has said
// anything, for its namespace when its first message names it.
func (l *Limiter) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := l.Admit(stream.Context(), ""); err != nil {
		return err
	}
	return next(srv, &firstOf{ServerStream: stream, limit: l})
}

// firstOf is a stream whose first message has not been counted.
type firstOf struct {
	grpc.ServerStream
	limit   *Limiter
	counted bool
}

// RecvMsg implements grpc.ServerStream.
func (s *firstOf) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || s.counted {
		return err
	}
	s.counted = true
	return s.limit.OfSpace(door.SpaceOf(s.Context(), m))
}
