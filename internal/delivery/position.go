package delivery

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxUnstored bounds the events that one commit says have arrived. One commit is on its
// way and one is to follow: twice as many may come again after a crash.
const maxUnstored = 32

// storeTimeout bounds the storing of a place after the sender was stopped.
const storeTimeout = 5 * time.Second

// position stores where a subscription stands. One commit is on its way at a time, while
// the next events are sent; what it does not cover is covered by the next one.
type position struct {
	// after and index are the position of the last delivery, of is its subscription; nil:
	// everything is stored.
	of    *machine.Subscription
	after uint64
	index uint16
	// unstored counts what arrived since the last commit began, or was not stored by it.
	unstored int
	// storing gets the outcome of the commit on its way; nil: there is none.
	storing chan stored
}

// stored is the outcome of a commit: the subscription as it is now.
type stored struct {
	sub   machine.Subscription
	err   error
	after uint64
	index uint16
}

// forget gives up what is not stored.
func (p *position) forget() { p.of, p.unstored = nil, 0 }

// advance notes that an event arrived, or that there is none up to its place.
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

// begin starts to store the place. It is stored also if ctx ends, so that what has
// arrived is not sent again by the next process.
func (d *delivery) begin(ctx context.Context) {
	p := &d.position
	of, after, index, out := p.of, p.after, p.index, make(chan stored, 1)
	p.storing, p.unstored = out, 0
	go func() {
		sub, err := d.o.cfg.Subscriptions.Advance(context.WithoutCancel(ctx), of, after, index)
		out <- stored{sub: sub, err: err, after: after, index: index}
	}()
}

// stored takes the outcome of a commit.
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

// flush waits until the place is stored.
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
