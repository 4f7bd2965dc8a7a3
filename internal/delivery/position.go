package delivery

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxUnstored limits the number of delivered events whose position one commit stores. While a commit
// runs, the events for the next commit are delivered. So after a crash, up to twice this number of
// events may be sent again.
const maxUnstored = 32

// storeTimeout limits how long a position is stored after the sender was stopped.
const storeTimeout = 5 * time.Second

// position stores the position of a subscription. One commit runs at a time, while the next events are
// sent. The next commit stores the position after those events.
type position struct {
	// of is the subscription of the last delivery. after and index are its position. of is nil if
	// everything is stored.
	of    *machine.Subscription
	after uint64
	index uint16
	// unstored is the number of events that were delivered after the last commit began, or that it did
	// not store.
	unstored int
	// storing receives the outcome of the running commit. It is nil if no commit is running.
	storing chan stored
}

// stored is the outcome of a commit. It also contains the current subscription.
type stored struct {
	sub   machine.Subscription
	err   error
	after uint64
	index uint16
}

// forget forgets the position that is not stored.
func (p *position) forget() { p.of, p.unstored = nil, 0 }

// advance records that an event was delivered, or that there is no event up to its position.
func (d *delivery) advance(ctx context.Context, event *machine.Delivery) error {
	p := &d.position
	p.of, p.after, p.index = d.sub, event.After, event.Index
	p.unstored++
	if p.storing != nil && p.unstored < maxUnstored {
		select {
		case done := <-p.storing:
			if err := d.stored(done); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	if p.storing != nil {
		if err := d.stored(<-p.storing); err != nil {
			return err
		}
	}
	if p.of != nil {
		d.begin(ctx)
	}
	return nil
}

// begin starts to store the position. The position is stored even if ctx ends, so that the next process
// does not send delivered events again.
func (d *delivery) begin(ctx context.Context) {
	p := &d.position
	of, after, index, out := p.of, p.after, p.index, make(chan stored, 1)
	p.storing, p.unstored = out, 0
	go func() {
		sub, err := d.o.cfg.Subscriptions.Advance(context.WithoutCancel(ctx), of, after, index)
		out <- stored{sub: sub, err: err, after: after, index: index}
	}()
}

// stored handles the outcome of a commit.
func (d *delivery) stored(done stored) error {
	p := &d.position
	p.storing = nil
	if done.err != nil {
		return done.err
	}
	d.sub = &done.sub
	if p.after == done.after && p.index == done.index {
		p.of = nil
	}
	return nil
}

// flush waits until the position is stored.
func (d *delivery) flush(ctx context.Context) error {
	for d.position.of != nil || d.position.storing != nil {
		if d.position.storing == nil {
			d.begin(ctx)
		}
		timeout := time.NewTimer(storeTimeout)
		select {
		case done := <-d.position.storing:
			timeout.Stop()
			if err := d.stored(done); err != nil {
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
