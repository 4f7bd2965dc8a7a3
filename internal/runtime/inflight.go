package runtime

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// inflightLimiter lets inputs into the engine and knows when the last one has left.
type inflightLimiter struct {
	inFlight atomic.Int64
	// limit bounds what is inside when something comes, see [inflightLimiter.Acquire]; again is
	// when the last one that was refused was told to come back, as Elapsed measures it.
	limit       int64
	lastRetryAt atomic.Int64
	clock       Clock
	draining    atomic.Bool
	once        sync.Once
	// empty is closed when the gate is draining and nobody is inside.
	empty chan struct{}
	// failed is closed when a commit's outcome is unknown.
	failed   chan struct{}
	failOnce sync.Once
}

// newInflightLimiter makes an open gate with a limit of what is inside.
func newInflightLimiter(limit int, clock Clock) *inflightLimiter {
	return &inflightLimiter{limit: int64(limit), clock: clock, empty: make(chan struct{}), failed: make(chan struct{})}
}

// Acquire admits one input or says why it is not taken: none is any more, or so much is under
// way, more than share times the limit, that what was taken would be held up by it. 0 = no
// bound.
func (g *inflightLimiter) Acquire(share int64) error {
	got := g.inFlight.Add(1)
	err := g.Check()
	if limit := share * g.limit; err == nil && share > 0 && got > limit {
		err = &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "OVERLOADED", Limit: limit, Got: got, RetryAfter: g.retryDelay(),
			Message: "too many inputs are under way; nothing was done, repeat the request later",
		}
	}
	if err != nil {
		g.Release()
	}
	return err
}

// Pauses asked of those who came when there was too much: the shortest is a few times what
// the inputs that are under way take.
const (
	shortestPause = 250 * time.Millisecond
	longestPause  = 10 * time.Second
)

// retryDelay is the pause asked of one more who was refused, nanoseconds. They come back one
// after the other, at most a second's limit in a second: a crowd that came back at once
// would keep the process busy with refusing it.
func (g *inflightLimiter) retryDelay() int64 {
	now := int64(g.clock.Elapsed())
	for {
		last := g.lastRetryAt.Load()
		next := min(max(last+int64(time.Second)/g.limit, now+int64(shortestPause)), now+int64(longestPause))
		if g.lastRetryAt.CompareAndSwap(last, next) {
			return next - now
		}
	}
}

// Check says why nothing is taken any more; nil: it is.
func (g *inflightLimiter) Check() error {
	select {
	case <-g.failed:
		return commitUnknown()
	default:
	}
	if g.draining.Load() {
		return &machine.Error{
			Code: machine.CodeUnavailable, Reason: "DRAINING",
			Message: "the server is shutting down; repeat the request with the same id at its successor", RetryAfter: drainRetry,
		}
	}
	return nil
}

// drainRetry is the pause asked of callers of a draining server, nanoseconds.
const drainRetry = 1_000_000_000

// Release takes back one [inflightLimiter.Acquire].
func (g *inflightLimiter) Release() {
	if g.inFlight.Add(-1) == 0 && g.draining.Load() {
		g.once.Do(func() { close(g.empty) })
	}
}

// Drain closes the gate and waits until the last input has left.
func (g *inflightLimiter) Drain(ctx context.Context) error {
	g.inFlight.Add(1)
	g.draining.Store(true)
	g.Release()
	select {
	case <-g.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Fail closes the gate for good: nobody knows what the store holds.
func (g *inflightLimiter) Fail() { g.failOnce.Do(func() { close(g.failed) }) }

// commitUnknown is the answer of who cannot know what the store holds.
func commitUnknown() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: "COMMIT_UNKNOWN",
		Message: "nobody knows whether the commit happened; repeat the request with the same id once the server is back",
	}
}

// Failed is closed when the gate was closed for good.
func (g *inflightLimiter) Failed() <-chan struct{} { return g.failed }

// Empty is closed when the gate is draining and nobody is inside.
func (g *inflightLimiter) Empty() <-chan struct{} { return g.empty }
