package router

import (
	"context"
	"strings"
	"time"
)

// retrier are those of one call: at this node, at the next owner, until there is an answer, no
// other may be made, or nobody had its partition for too long. Not safe for concurrent use.
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

// pauses between tries when nothing is heard: an owner may be as it is known, and not ready yet.
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
	// What becomes of it is told by failed.
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

// drainOwnerTimeout is how long a call waits for the next owner where the server ends: a hand-over takes less,
// and nobody may come.
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

// cancelledByDrain: the server ends, or the house of the call does, under a try that may have begun it. Who must not repeat
// the call is not to hear DRAINING then.
func (t *retrier) cancelledByDrain(err error) bool {
	return reasonOf(context.Cause(t.ctx)) == reasonDraining && outcomeOf(err) != notStarted
}

// toClientError is an error as the caller hears it.
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
