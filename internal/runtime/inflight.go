package runtime

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// inflightLimiter bounds how many inputs the engine processes at once. During a drain it signals when
// the last input has finished. Safe for concurrent use.
type inflightLimiter struct {
	inFlight atomic.Int64
	// limit is the number of inputs in flight above which Acquire rejects inputs. lastRetryAt is the
	// latest time at which a rejected caller was asked to retry, as a value of the clock's Elapsed.
	limit       int64
	lastRetryAt atomic.Int64
	clock       Clock
	draining    atomic.Bool
	once        sync.Once
	// empty is closed when the engine is draining and no input is in flight.
	empty chan struct{}
	// failed is closed when a commit's outcome is unknown.
	failed   chan struct{}
	failOnce sync.Once
}

// newInflightLimiter returns a limiter that admits inputs until limit inputs are in flight.
func newInflightLimiter(limit int, clock Clock) *inflightLimiter {
	return &inflightLimiter{limit: int64(limit), clock: clock, empty: make(chan struct{}), failed: make(chan struct{})}
}

// Acquire admits one input. It returns an error if the engine is draining or has failed, or if the
// number of inputs in flight exceeds share times the limit. If share is 0, there is no bound. The
// caller must call Release once for each admitted input.
func (l *inflightLimiter) Acquire(share int64) error {
	got := l.inFlight.Add(1)
	err := l.Check()
	if limit := share * l.limit; err == nil && share > 0 && got > limit {
		err = &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "OVERLOADED", Limit: limit, Got: got, RetryAfter: l.retryDelay(),
			Message: "too many inputs are under way; nothing was done, repeat the request later",
		}
	}
	if err != nil {
		l.Release()
	}
	return err
}

// These constants bound the retry delay that a rejected caller gets. The shortest delay is a few times
// the duration of the inputs in flight.
const (
	shortestPause = 250 * time.Millisecond
	longestPause  = 10 * time.Second
)

// retryDelay returns the delay after which the next rejected caller may retry, in nanoseconds. It
// spreads the retries over time, at most limit of them in a second. If all callers retried at once, the
// process would be busy with rejecting them.
func (l *inflightLimiter) retryDelay() int64 {
	now := int64(l.clock.Elapsed())
	for {
		last := l.lastRetryAt.Load()
		next := min(max(last+int64(time.Second)/l.limit, now+int64(shortestPause)), now+int64(longestPause))
		if l.lastRetryAt.CompareAndSwap(last, next) {
			return next - now
		}
	}
}

// Check returns nil if inputs are accepted. Otherwise it returns the reason why they are not accepted.
func (l *inflightLimiter) Check() error {
	select {
	case <-l.failed:
		return commitUnknown()
	default:
	}
	if l.draining.Load() {
		return &machine.Error{
			Code: machine.CodeUnavailable, Reason: "DRAINING",
			Message: "the server is shutting down; repeat the request with the same id at its successor", RetryAfter: drainRetry,
		}
	}
	return nil
}

// drainRetry is the retry delay for callers of a draining server, in nanoseconds.
const drainRetry = 1_000_000_000

// Release ends one input that Acquire admitted.
func (l *inflightLimiter) Release() {
	if l.inFlight.Add(-1) == 0 && l.draining.Load() {
		l.once.Do(func() { close(l.empty) })
	}
}

// Drain stops admission and waits until the last input has finished.
func (l *inflightLimiter) Drain(ctx context.Context) error {
	l.inFlight.Add(1)
	l.draining.Store(true)
	l.Release()
	select {
	case <-l.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Fail ends the admission of inputs permanently, because the content of the store is unknown.
func (l *inflightLimiter) Fail() { l.failOnce.Do(func() { close(l.failed) }) }

// commitUnknown returns the error for an input whose commit may or may not be in the store.
func commitUnknown() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: "COMMIT_UNKNOWN",
		Message: "it is not known whether the commit happened; repeat the request with the same id once the server is back",
	}
}

// Failed returns a channel that is closed by Fail.
func (l *inflightLimiter) Failed() <-chan struct{} { return l.failed }

// Empty returns a channel that is closed when the engine is draining and no input is in flight.
func (l *inflightLimiter) Empty() <-chan struct{} { return l.empty }
