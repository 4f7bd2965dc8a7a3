package router

import (
	"context"
	"strings"
	"time"
)

// retrier makes the tries of one call: at this node, then at the next owner, until there is an
// answer, no retry is allowed, or the partition had no owner for too long. Not safe for
// concurrent use.
type retrier struct {
	r      *Router
	ctx    context.Context //nolint:containedctx // it is the call's
	part   int32
	method string
	// failures counts those that failed in a row; since is when the first of them did, began when the last began.
	failures     int
	since, began time.Time
	// moved and came are closed when it is worth another try. Most calls have one: they are
	// nil before, and the pause is short then.
	moved, came <-chan struct{}
	over        bool
	// timedOut: it waited in vain; unsure: a try before may have taken effect.
	timedOut, mayHaveExecuted bool
}

func (r *Router) newRetrier(ctx context.Context, part int32, method string) *retrier {
	return &retrier{r: r, ctx: ctx, part: part, method: method}
}

// pauses are the waits between tries without news of the owner: it may be the known one, not
// yet ready.
var pauses = []time.Duration{2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}

// next waits until it is worth another try; false: there is none.
func (t *retrier) next() bool {
	if t.over {
		return false
	}
	if t.failures > 0 && !t.pause() {
		t.over = true
		return false
	}
	if t.failures > 0 {
		t.moved, t.came = t.r.cfg.Directory.Changed(), t.r.cfg.Slots.At(t.part).Changed()
	}
	// The outcome is then that of failed.
	t.over, t.began = true, time.Now()
	return true
}

// failed takes note of how a try ended. again: a call that may have been begun may be made again.
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
	case notStarted:
	}
	if time.Since(t.began) > t.r.cfg.OwnerTimeout {
		t.resetTimeout() // it was somewhere for long
	}
	if t.failures == 0 {
		t.since = time.Now()
	}
	t.failures++
	t.over = false
	t.r.cfg.Directory.Refresh()
}

// resetTimeout takes note that the call was on its way for a while: its patience is new.
func (t *retrier) resetTimeout() { t.failures = 0 }

// drainOwnerTimeout is how long a call waits for the next owner while the server drains: a
// handover takes less, and there may be no next owner.
const drainOwnerTimeout = time.Second

func (t *retrier) pause() bool {
	patience := t.r.cfg.OwnerTimeout
	if t.r.isDraining() {
		patience = min(patience, drainOwnerTimeout)
	}
	left := patience - time.Since(t.since)
	if left <= 0 {
		t.timedOut = true
		return false
	}
	timer := time.NewTimer(min(left, pauses[min(t.failures, len(pauses))-1]))
	defer timer.Stop()
	select {
	case <-t.moved:
	case <-t.came:
	case <-timer.C:
	case <-t.ctx.Done():
		return false
	}
	t.r.cfg.Counts.Retried(strings.TrimPrefix(t.method, "/"))
	return true
}

// cancelledByDrain reports whether the server or the partition drained during a try that may
// have begun the call. A client that must not repeat the call then must not get DRAINING.
func (t *retrier) cancelledByDrain(err error) bool {
	return reasonOf(context.Cause(t.ctx)) == reasonDraining && outcomeOf(err) != notStarted
}

// toClientError returns the error for the client.
func (t *retrier) toClientError(err error, changes bool) error {
	if t.ctx.Err() != nil {
		return ended(t.ctx, t.ctx.Err())
	}
	if t.timedOut {
		t.r.cfg.Counts.NoOwner(strings.TrimPrefix(t.method, "/"))
		if t.mayHaveExecuted && changes {
			return lost()
		}
		return noOwner()
	}
	return toClientError(err, changes)
}
