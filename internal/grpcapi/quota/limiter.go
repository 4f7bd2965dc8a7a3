package quota

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxLimiters bounds the principals that are remembered at once. Forgetting one
// gives it a full burst again, nothing worse.
const maxLimiters = 10_000

// Limiter admits requests per principal. The ready-made interceptor of the
// middleware library cannot say when to come back, which RetryInfo does.
type Limiter struct {
	perSecond rate.Limit
	burst     int
	mu        sync.Mutex
	// buckets are those of the principals that called last.
	buckets *cache.LRU[string, *rate.Limiter]
}

// New returns nil, which admits everything, for perSecond 0.
func New(perSecond float64, burst int) *Limiter {
	if perSecond == 0 {
		return nil
	}
	return &Limiter{perSecond: rate.Limit(perSecond), burst: burst, buckets: cache.New[string, *rate.Limiter](maxLimiters)}
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

// Admit takes one request from the caller's allowance.
func (l *Limiter) Admit(ctx context.Context) error {
	if l == nil {
		return nil
	}
	now := time.Now()
	reservation := l.bucket(door.CallerOf(ctx).Name).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reservation.CancelAt(now)
	return &machine.Refusal{
		Code: machine.CodeResourceExhausted, Reason: "RATE_LIMITED",
		Message: "too many requests of this principal", Limit: int64(l.perSecond), RetryAfter: int64(wait),
	}
}

// Unary is [Limiter.Admit] for unary calls.
func (l *Limiter) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := l.Admit(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream is [Limiter.Admit] for a stream as a whole.
func (l *Limiter) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := l.Admit(stream.Context()); err != nil {
		return err
	}
	return next(srv, stream)
}
