package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Poster delivers one event of a subscription. Any error is a try that failed.
type Poster interface {
	Post(ctx context.Context, sub *machine.Subscription, event machine.Delivery) error
}

// Serve delivers the events of a subscription that was stored, or was changed.
func (o *Outbox) Serve(key machine.SubscriptionKey) {
	feed := o.cfg.Feeds[key.Kind]
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.subs[key]; s != nil {
		select {
		case s.news <- struct{}{}:
		default:
		}
		return
	}
	if o.ctx == nil || feed == nil {
		return
	}
	ctx, stop := context.WithCancel(o.ctx)
	s := &sender{stop: stop, news: make(chan struct{}, 1)}
	o.subs[key] = s
	o.tasks.Go(func() {
		for more := true; more; more = !o.unserve(ctx, key, s) {
			(&delivery{o: o, key: key, feed: feed, news: s.news}).run(ctx)
		}
	})
}

// unserve ends a sender, unless there is news of its subscription.
func (o *Outbox) unserve(ctx context.Context, key machine.SubscriptionKey, s *sender) (ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() == nil {
		select {
		case <-s.news:
			return false
		default:
		}
	}
	s.stop()
	if o.subs[key] == s {
		delete(o.subs, key)
	}
	return true
}

// Stop ends the deliveries of a subscription that was removed. One that is made under
// its key has a sender of its own.
func (o *Outbox) Stop(key machine.SubscriptionKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.subs[key]; s != nil {
		s.stop()
		delete(o.subs, key)
	}
}

// delivery serves one subscription: its events in order, each tried until it
// arrives or is given up, where it stands stored after each.
type delivery struct {
	o    *Outbox
	key  machine.SubscriptionKey
	feed Feed
	news <-chan struct{}
	// sub is the subscription as it is stored.
	sub *machine.Subscription
}

func (d *delivery) run(ctx context.Context) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		err := d.current(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.Is(err, machine.ErrSubscriptionChanged):
			pause = 0
		case ctx.Err() == nil:
			d.o.cfg.Log.WarnContext(ctx, "deliveries wait", "subscription", d.key.ID, "run", d.key.Run, "error", err)
			pause = d.o.sleep(ctx, pause)
		}
	}
}

// current serves the subscription as it is now: a change of it ends that.
func (d *delivery) current(ctx context.Context) error {
	now, stop := context.WithCancel(ctx)
	changed := false
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-d.news:
			changed = true
			stop()
		case <-now.Done():
		}
	})
	err := d.serve(now)
	stop()
	watch.Wait()
	if changed && ctx.Err() == nil {
		return machine.ErrSubscriptionChanged
	}
	return err
}

// serve delivers until there is nothing more (io.EOF), or something is in the way.
func (d *delivery) serve(ctx context.Context) (err error) {
	if d.sub, err = d.o.cfg.Engine.Subscription(ctx, d.key); err != nil {
		return err
	}
	if d.sub == nil || d.sub.Done {
		return io.EOF
	}
	events, err := d.feed.Open(ctx, d.sub)
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		batch, err := events.Next(ctx)
		if errors.Is(err, io.EOF) {
			return d.finish(ctx)
		}
		if err != nil {
			return err
		}
		for _, event := range batch {
			if err := d.deliver(ctx, event); err != nil {
				return err
			}
		}
	}
}

func (d *delivery) finish(ctx context.Context) error {
	sub := *d.sub
	sub.Done = true
	if err := d.store(ctx, sub, nil); err != nil {
		return err
	}
	return io.EOF
}

// deliver tries one event until it arrives or is given up.
func (d *delivery) deliver(ctx context.Context, event machine.Delivery) error {
	for {
		if err := d.due(ctx); err != nil {
			return err
		}
		sub := *d.sub
		if event.ID == "" {
			sub.After, sub.Index = event.After, event.Index
			return d.store(ctx, sub, nil)
		}
		cause := d.o.cfg.Post.Post(ctx, d.sub, event)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if cause == nil {
			sub.After, sub.Index = event.After, event.Index
			sub.Attempts, sub.NextAt, sub.LastError = 0, 0, ""
			return d.store(ctx, sub, nil)
		}
		if given, err := d.retry(ctx, sub, event, cause); given || err != nil {
			return err
		}
	}
}

// retry notes a try that failed; after the last one the event becomes a dead letter
// and the next one follows.
func (d *delivery) retry(ctx context.Context, sub machine.Subscription, event machine.Delivery, cause error) (given bool, err error) {
	now := time.Now()
	sub.Attempts++
	sub.LastError = clip(told(cause), maxMessage)
	d.o.cfg.Log.InfoContext(ctx, "delivery failed", "subscription", d.key.ID, "run", d.key.Run, "attempt", sub.Attempts, "error", withoutURL(cause))
	if sub.Attempts < d.o.cfg.Tries {
		pause := d.o.cfg.Pause << min(sub.Attempts, 20)
		sub.NextAt = now.Add(min(pause, d.o.cfg.MaxRetry)).UnixNano()
		return false, d.store(ctx, sub, nil)
	}
	sub.Dead++
	letter := &machine.DeadLetter{N: sub.Dead, At: now.UnixNano(), Event: event.ID, Type: event.Type, Body: event.Body, Error: sub.LastError}
	sub.After, sub.Index, sub.Attempts, sub.NextAt = event.After, event.Index, 0, 0
	return true, d.store(ctx, sub, letter)
}

func (d *delivery) store(ctx context.Context, sub machine.Subscription, letter *machine.DeadLetter) error {
	if err := d.o.cfg.Engine.Advance(ctx, sub, d.sub, letter); err != nil {
		return err
	}
	d.sub = &sub
	return nil
}

// lookAgain is the longest sleep before the clock is looked at again: it may be set.
const lookAgain = time.Second

// due waits for the time of the next try, and no longer than the longest pause:
// the clock may have been set back since the time was stored.
func (d *delivery) due(ctx context.Context) error {
	begun := time.Now()
	for {
		wait := min(time.Until(time.Unix(0, d.sub.NextAt)), d.o.cfg.MaxRetry-time.Since(begun))
		if d.sub.NextAt == 0 || wait <= 0 {
			return nil
		}
		select {
		case <-time.After(min(wait, lookAgain)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Resend delivers a dead letter once more and removes it if it arrives.
func (o *Outbox) Resend(ctx context.Context, key machine.SubscriptionKey, n uint64) error {
	sub, err := o.cfg.Engine.Subscription(ctx, key)
	if err != nil {
		return err
	}
	letters, err := o.cfg.Engine.DeadLetters(ctx, key, n-1, 1)
	if err != nil {
		return err
	}
	if sub == nil || len(letters) == 0 || letters[0].N != n {
		return &machine.Refusal{
			Code: machine.CodeNotFound, Reason: "DEAD_LETTER_NOT_FOUND", Field: "n",
			Message: fmt.Sprintf("subscription %q has no dead letter %d", key.ID, n),
		}
	}
	letter := letters[0]
	err = o.cfg.Post.Post(ctx, sub, machine.Delivery{ID: letter.Event, Type: letter.Type, Body: letter.Body})
	if err != nil {
		return &machine.Refusal{
			Code: machine.CodeUnavailable, Reason: "DELIVERY_FAILED", Field: "n", Message: "the receiver did not take it: " + told(err),
		}
	}
	return o.cfg.Engine.DropDeadLetter(ctx, key, n)
}
