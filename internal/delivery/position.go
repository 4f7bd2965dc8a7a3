package delivery

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxUnstored limits the number of delivered events whose position one commit stores. While a commit
// runs, the next events are already sent. So after a crash, up to twice this number of events may be
// sent again.
const maxUnstored = 32

// storeTimeout limits how long flush waits for a commit of the position after ctx has ended.
const storeTimeout = 5 * time.Second

// position is how far the events of a subscription were delivered. One commit at a time stores it,
// while the next events are sent. The next commit then stores the position after these events.
type position struct {
	// subscription is the subscription to which after and index, the position after the last delivered event,
	// belong. It is nil if this position is stored.
	subscription *machine.Subscription
	after        uint64
	index        uint16
	// unstored is the number of events that were delivered since the last commit of the position began.
	unstored int
	// storing receives the outcome of the running commit. It is nil if no commit is running.
	storing chan commitResult
}

// commitResult is the outcome of a commit. It also contains the current subscription.
type commitResult struct {
	sub   machine.Subscription
	err   error
	after uint64
	index uint16
}

// forget drops the position that is not stored.
func (p *position) forget() { p.subscription, p.unstored = nil, 0 }

// advance moves the position behind an event that was delivered, or behind journal entries without events. If no commit
// of the position is running, it starts one. If maxUnstored events are not stored, it waits for the running commit first.
func (d *delivery) advance(ctx context.Context, event *machine.Delivery) error {
	p := &d.position
	p.subscription, p.after, p.index = d.sub, event.After, event.Index
	p.unstored++
	if p.storing != nil && p.unstored < maxUnstored {
		select {
		case done := <-p.storing:
			if err := d.applyCommit(done); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	if p.storing != nil {
		if err := d.applyCommit(<-p.storing); err != nil {
			return err
		}
	}
	if p.subscription != nil {
		d.begin(ctx)
	}
	return nil
}

// begin starts a commit of the position. The commit continues even if ctx ends, so that the next
// process does not send delivered events again.
func (d *delivery) begin(ctx context.Context) {
	p := &d.position
	of, after, index, out := p.subscription, p.after, p.index, make(chan commitResult, 1)
	p.storing, p.unstored = out, 0
	go func() {
		sub, err := d.o.cfg.Subscriptions.Advance(context.WithoutCancel(ctx), of, after, index)
		out <- commitResult{sub: sub, err: err, after: after, index: index}
	}()
}

// applyCommit handles the outcome of a commit.
func (d *delivery) applyCommit(done commitResult) error {
	p := &d.position
	p.storing = nil
	if done.err != nil {
		return done.err
	}
	d.sub = &done.sub
	if p.after == done.after && p.index == done.index {
		p.subscription = nil
	}
	return nil
}

// flush waits until the position is stored.
func (d *delivery) flush(ctx context.Context) error {
	for d.position.subscription != nil || d.position.storing != nil {
		if d.position.storing == nil {
			d.begin(ctx)
		}
		timeout := time.NewTimer(storeTimeout)
		select {
		case done := <-d.position.storing:
			timeout.Stop()
			if err := d.applyCommit(done); err != nil {
				return err
			}
		case <-timeout.C:
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}
