package router

import (
	"context"
	"strings"
	"time"
)

// tries are those of one call: at this node, at the next owner, until there is an answer, no
// other may be made, or nobody had its partition for too long. Not safe for concurrent use.
type tries struct {
	r      *Router
	ctx    context.Context //nolint:containedctx // it is the call's
	part   int32
	method string
	// n counts those that failed in a row; since is when the first of them did, began when the last began.
	n            int
	since, began time.Time
	// moved and came are closed when it is worth another try. Most calls have one: they are
	// nil before, and the pause is short then.
	moved, came <-chan struct{}
	over        bool
	// lost: it waited in vain; unsure: a try before may have taken effect.
	lost, unsure bool
}

func (r *Router) try(ctx context.Context, part int32, method string) *tries {
	return &tries{r: r, ctx: ctx, part: part, method: method}
}

// pauses between tries when nothing is heard: an owner may be as it is known, and not ready yet.
var pauses = []time.Duration{2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}

// next waits until it is worth another try; false: there is none.
func (t *tries) next() bool {
	if t.over {
		return false
	}
	if t.n > 0 && !t.pause() {
		t.over = true
		return false
	}
	if t.n > 0 {
		t.moved, t.came = t.r.cfg.Directory.Changed(), t.r.cfg.Seats.At(t.part).Changed()
	}
	// What becomes of it is told by failed.
	t.over, t.began = true, time.Now()
	return true
}

// failed takes note of how a try ended. again: a call that may have been begun may be made again.
func (t *tries) failed(err error, again bool) {
	if err == nil || t.ctx.Err() != nil {
		return
	}
	switch fateOf(err) {
	case final:
		return
	case unknown:
		t.unsure = true
		if !again {
			return
		}
	case unbegun:
	}
	if time.Since(t.began) > t.r.cfg.Patience {
		t.went() // it was somewhere for long
	}
	if t.n == 0 {
		t.since = time.Now()
	}
	t.n++
	t.over = false
	t.r.cfg.Directory.Refresh()
}

// went takes note that the call was on its way for a while: its patience is new.
func (t *tries) went() { t.n = 0 }

// leaving is how long a call waits for the next owner where the server ends: a hand-over takes less,
// and nobody may come.
const leaving = time.Second

func (t *tries) pause() bool {
	patience := t.r.cfg.Patience
	if t.r.isDraining() {
		patience = min(patience, leaving)
	}
	left := patience - time.Since(t.since)
	if left <= 0 {
		t.lost = true
		return false
	}
	timer := time.NewTimer(min(left, pauses[min(t.n, len(pauses))-1]))
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

// cutOff: the server ends, or the house of the call does, under a try that may have begun it. Who must not repeat
// the call is not to hear DRAINING then.
func (t *tries) cutOff(err error) bool {
	return reasonOf(context.Cause(t.ctx)) == reasonDraining && fateOf(err) != unbegun
}

// told is an error as the caller hears it.
func (t *tries) told(err error, changes bool) error {
	if t.ctx.Err() != nil {
		return ended(t.ctx, t.ctx.Err())
	}
	if t.lost {
		t.r.cfg.Counts.NoOwner(strings.TrimPrefix(t.method, "/"))
		if t.unsure && changes {
			return lost()
		}
		return nobody()
	}
	return told(err, changes)
}
