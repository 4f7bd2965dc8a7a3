package router

import (
	"context"
	"strings"
	"time"
)

// retrier controls the attempts of one call. The attempts end when there is an answer, when the call
// must not be repeated, or when the partition had no owner for OwnerTimeout. Not safe for concurrent
// use.
type retrier struct {
	r      *Router
	ctx    context.Context //nolint:containedctx // it is the call's
	part   int32
	method string
	// failures is the number of consecutive failed attempts. since is the time when the first of them
	// failed. startedAt is the time when the current attempt began.
	failures         int
	since, startedAt time.Time
	// moved is closed when an owner of a partition changes, and opened when this node opens a partition.
	// Then another attempt may succeed. Both are nil before the first failure, because most calls need
	// only one attempt.
	moved, opened <-chan struct{}
	finished      bool
	// timedOut means that the partition had no owner for too long. mayHaveExecuted means that an
	// earlier attempt may have taken effect.
	timedOut, mayHaveExecuted bool
}

func (r *Router) newRetrier(ctx context.Context, part int32, method string) *retrier {
	return &retrier{r: r, ctx: ctx, part: part, method: method}
}

// pauses are the waits after the first, the second and later failed attempts if no new owner is
// reported. The first waits are short, because the known owner may be about to open the partition.
var pauses = []time.Duration{2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}

// next waits until another attempt of the call may succeed. It returns false if there must be no
// further attempt.
func (t *retrier) next() bool {
	if t.finished {
		return false
	}
	if t.failures > 0 && !t.pause() {
		t.finished = true
		return false
	}
	if t.failures > 0 {
		t.moved, t.opened = t.r.cfg.Directory.Changed(), t.r.cfg.Slots.At(t.part).Changed()
	}
	// There is no further attempt after this one, unless the method failed sets t.finished to false.
	t.finished, t.startedAt = true, time.Now()
	return true
}

// failed records the error of an attempt and decides whether there may be another one. again reports
// whether the call may be repeated even if a node may have begun it.
func (t *retrier) failed(err error, again bool) {
	if err == nil || t.ctx.Err() != nil {
		return
	}
	switch outcomeOf(err) {
	case final:
		return
	case unknown:
		t.mayHaveExecuted = true
		if !again {
			return
		}
	case notStarted: // no node has begun the call, so it may always be repeated
	}
	if time.Since(t.startedAt) > t.r.cfg.OwnerTimeout {
		t.resetTimeout() // the attempt ran for long, so there was an owner
	}
	if t.failures == 0 {
		t.since = time.Now()
	}
	t.failures++
	t.finished = false
	t.r.cfg.Directory.Refresh()
}

// resetTimeout lets the call wait for the full OwnerTimeout again until the partition has an owner.
func (t *retrier) resetTimeout() { t.failures = 0 }

// drainOwnerTimeout is how long a call waits for the next owner while the server drains. It is short,
// because a handover takes less time and there may be no next owner.
const drainOwnerTimeout = time.Second

// pause waits before the next attempt: until the partition moves or opens, but at most for a pause that grows with
// the failures. It returns false if there is no time for another attempt.
func (t *retrier) pause() bool {
	limit := t.r.cfg.OwnerTimeout
	if t.r.isDraining() {
		limit = min(limit, drainOwnerTimeout)
	}
	left := limit - time.Since(t.since)
	if left <= 0 {
		t.timedOut = true
		return false
	}
	timer := time.NewTimer(min(left, pauses[min(t.failures, len(pauses))-1]))
	defer timer.Stop()
	select {
	case <-t.moved:
	case <-t.opened:
	case <-timer.C:
	case <-t.ctx.Done():
		return false
	}
	t.r.cfg.Counts.Retried(strings.TrimPrefix(t.method, "/"))
	return true
}

// cancelledByDrain reports whether the server drained during an attempt that may have begun the call.
// If a client must not repeat such a call, it must not receive DRAINING.
func (t *retrier) cancelledByDrain(err error) bool {
	return reasonOf(context.Cause(t.ctx)) == reasonDraining && outcomeOf(err) != notStarted
}

// toClientError returns the error that the client gets after the last try.
func (t *retrier) toClientError(err error, changes bool) error {
	if t.ctx.Err() != nil {
		return ended(t.ctx, t.ctx.Err())
	}
	if t.timedOut {
		t.r.cfg.Counts.NoOwner(strings.TrimPrefix(t.method, "/"))
		if t.mayHaveExecuted && changes {
			return newCommitUnknown()
		}
		return noOwner()
	}
	return toClientError(err, changes)
}
