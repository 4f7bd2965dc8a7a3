package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Poster sends one event of a subscription to its receiver. An error means that the attempt failed.
type Poster interface {
	Post(ctx context.Context, sub *machine.Subscription, event machine.Delivery) error
}

// Counts counts the outcomes of deliveries for metrics.
type Counts interface {
	// Delivery counts a try, with its outcome.
	Delivery(kind machine.SubscriptionKind, became AttemptOutcome)
	// DeliveryFault counts an internal error because of which events are not sent. doing is the action
	// during which the error occurred.
	DeliveryFault(kind machine.SubscriptionKind, doing Activity)
}

// AttemptOutcome is the outcome of one attempt to send an event.
type AttemptOutcome string

// These are the outcomes of an attempt to send an event: the event arrived, the attempt failed, or the
// last attempt failed.
const (
	Delivered AttemptOutcome = "delivered"
	Failed    AttemptOutcome = "failed"
	Dead      AttemptOutcome = "dead"
)

// Activity is what a delivery was doing when an internal error occurred.
type Activity string

// These are the actions in which an internal error may occur: reading from the store, and storing the
// position of a subscription.
const (
	Reading Activity = "read"
	Storing Activity = "store"
)

// Serve starts to send the events of a new or changed subscription. It returns after the sending for
// the earlier version of the subscription has ended.
func (o *Outbox) Serve(key machine.SubscriptionKey) {
	feed := o.cfg.Feeds[key.Kind]
	o.mu.Lock()
	if o.ctx == nil || feed == nil {
		o.mu.Unlock()
		return
	}
	before := o.subs[key]
	ctx, stop := context.WithCancel(o.ctx)
	s := &sender{stop: stop, done: make(chan struct{})}
	o.subs[key] = s
	o.tasks.Go(func() {
		defer o.removeSender(key, s)
		before.end()
		(&delivery{o: o, key: key, feed: feed}).run(ctx)
	})
	o.mu.Unlock()
	before.end()
}

// removeSender removes a sender that has ended.
func (o *Outbox) removeSender(key machine.SubscriptionKey, s *sender) {
	s.stop()
	close(s.done)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.subs[key] == s {
		delete(o.subs, key)
	}
}

// Stop ends the sending of events for a removed subscription. After Stop has returned, the receiver
// gets no more messages. If a new subscription with the same key already exists, Stop starts the
// sending for it.
func (o *Outbox) Stop(key machine.SubscriptionKey) {
	o.mu.Lock()
	s := o.subs[key]
	delete(o.subs, key)
	o.mu.Unlock()
	s.end()
	if s != nil {
		// If the store has a new subscription with this key, Serve starts to send its events. Otherwise
		// the started goroutine ends immediately.
		o.Serve(key)
	}
}

// end stops the goroutine of a subscription and waits until it has ended. For a nil sender it does
// nothing.
func (s *sender) end() {
	if s != nil {
		s.stop()
		<-s.done
	}
}

// delivery sends the events of one subscription in order. It tries to send each event until the event
// has arrived or becomes a dead letter.
type delivery struct {
	o    *Outbox
	key  machine.SubscriptionKey
	feed Feed
	// sub is the subscription in the form in which it was last stored.
	sub *machine.Subscription
	// position records how far the events of the subscription were delivered, and writes this to the
	// store.
	position position
	// moved reports whether an event was delivered or became a dead letter since the last internal
	// error.
	moved bool
}

// run sends events until the subscription or ctx has ended. After an internal error, run waits. Each
// further error makes the wait longer, until an event was delivered.
func (d *delivery) run(ctx context.Context) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		d.moved = false
		doing, err := d.serve(ctx)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return
		}
		if d.moved {
			pause = 0
		}
		level := slog.LevelWarn
		if errors.Is(err, machine.ErrSubscriptionChanged) {
			// Another caller is changing or removing the subscription, and will call Serve or
			// Stop.
			level = slog.LevelDebug
		}
		d.o.cfg.Log.Log(ctx, level, "delivery blocked by internal error, retrying", "subscription_id", d.key.ID, "run_id", d.key.Run, "operation", string(doing), "error", err)
		d.o.fault(d.key.Kind, doing)
		pause = d.o.sleep(ctx, pause)
	}
}

// serve delivers events until the subscription has ended (io.EOF) or an internal error occurs. doing is the action
// during which the error occurred.
func (d *delivery) serve(ctx context.Context) (doing Activity, err error) {
	if d.sub, err = d.o.cfg.Subscriptions.Subscription(ctx, d.key); err != nil {
		return Reading, err
	}
	if d.sub == nil || d.sub.Done {
		return Reading, io.EOF
	}
	if err := d.storePending(ctx); err != nil {
		return Storing, err
	}
	if err := d.checkAccess(ctx); err != nil {
		return Reading, err
	}
	events, err := d.feed.Open(ctx, d.sub)
	if err != nil {
		return Reading, err
	}
	defer events.Close()
	for {
		batch, err := events.Next(ctx)
		if errors.Is(err, io.EOF) {
			return Storing, d.finish(ctx)
		}
		if err != nil {
			return Reading, err
		}
		if err := d.deliverAll(ctx, batch); err != nil {
			return Storing, err
		}
	}
}

// checkAccess returns an error if the owner of the subscription may no longer read the records. When the
// owner loses or regains this right, checkAccess stores it in the subscription's LastError, where the owner
// and the operator can see it.
func (d *delivery) checkAccess(ctx context.Context) error {
	refused := d.feed.May(d.sub)
	why := ""
	if refused != nil {
		why = clip(refused.Error(), maxMessage)
	}
	if d.sub.LastError == why || refused == nil && !strings.HasPrefix(d.sub.LastError, lostRight) {
		return refused
	}
	if err := d.flush(ctx); err != nil {
		return errors.Join(refused, err)
	}
	sub := *d.sub
	sub.LastError = why
	return errors.Join(refused, d.storeSubscription(ctx, sub, nil))
}

// lostRight is the beginning of the text that LastError has if the owner of a subscription may no
// longer read the records.
const lostRight = "OWNER_LOST_RIGHT"

// storePending stores the position after the events that were delivered before an internal error, so
// that they are not sent again. If another caller has replaced the subscription in the meantime, the
// position is dropped.
func (d *delivery) storePending(ctx context.Context) error {
	err := d.flush(ctx)
	if errors.Is(err, machine.ErrSubscriptionChanged) {
		d.position.forget()
		return nil
	}
	return err
}

// finish stores that the subscription has ended, and then returns io.EOF.
func (d *delivery) finish(ctx context.Context) error {
	sub := *d.sub
	sub.Done = true
	if err := d.storeSubscription(ctx, sub, nil); err != nil {
		return err
	}
	return io.EOF
}

// deliverAll delivers events in order. While it sends an event, it stores the position after the
// previous events. When it returns without an error, the position after the last event is stored.
func (d *delivery) deliverAll(ctx context.Context, events []machine.Delivery) error {
	for i := range events {
		if err := d.deliver(ctx, &events[i]); err != nil {
			return errors.Join(err, d.flush(ctx))
		}
	}
	return d.flush(ctx)
}

// deliver tries to send one event until the event has arrived or becomes a dead letter.
func (d *delivery) deliver(ctx context.Context, event *machine.Delivery) error {
	for {
		if err := d.awaitNextAttempt(ctx); err != nil {
			return err
		}
		if event.ID == "" {
			return d.advance(ctx, event)
		}
		if err := d.checkAccess(ctx); err != nil {
			return err
		}
		cause := d.o.cfg.Post.Post(ctx, d.sub, *event)
		if cause == nil {
			// The receiver has the event, so it is recorded as delivered even if ctx has ended in the
			// meantime.
			d.moved = true
			d.o.count(d.key.Kind, Delivered)
			return d.advance(ctx, event)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := d.flush(ctx); err != nil {
			return err
		}
		if given, err := d.retry(ctx, event, cause); given || err != nil {
			return err
		}
	}
}

// retry records a failed attempt to send an event. If it was the last attempt, the event becomes a dead
// letter, and given is true. Then the next event can be sent.
func (d *delivery) retry(ctx context.Context, event *machine.Delivery, cause error) (given bool, err error) {
	now, sub := time.Now(), *d.sub
	sub.Attempts++
	sub.LastError = clip(publicMessage(cause), maxMessage)
	d.o.cfg.Log.InfoContext(ctx, "delivery failed", "subscription_id", d.key.ID, "run_id", d.key.Run, "attempt", sub.Attempts, "error", withoutURL(cause))
	if sub.Attempts < d.o.cfg.Tries {
		d.o.count(d.key.Kind, Failed)
		pause := d.o.cfg.Pause << min(sub.Attempts, 20)
		sub.NextAt = now.Add(min(pause, d.o.cfg.MaxRetry)).UnixNano()
		return false, d.storeSubscription(ctx, sub, nil)
	}
	d.o.count(d.key.Kind, Dead)
	sub.Dead++
	letter := &machine.DeadLetter{N: sub.Dead, At: now.UnixNano(), Event: event.ID, Type: event.Type, Body: event.Body, Error: sub.LastError, Withheld: event.Erasable}
	if letter.Withheld {
		letter.Body = nil
	}
	sub.After, sub.Index, sub.Attempts, sub.NextAt = event.After, event.Index, 0, 0
	d.moved = true
	return true, d.storeSubscription(ctx, sub, letter)
}

// storeSubscription stores a changed subscription, together with a dead letter if letter is not nil. It returns an
// error if another caller has changed the subscription after it was read.
func (d *delivery) storeSubscription(ctx context.Context, sub machine.Subscription, letter *machine.DeadLetter) error {
	if err := d.o.cfg.Subscriptions.NoteTry(ctx, sub, d.sub, letter); err != nil {
		return err
	}
	d.sub = &sub
	return nil
}

// clockRecheck is the longest time that awaitNextAttempt sleeps before it reads the clock again, because the clock may
// have been set.
const clockRecheck = time.Second

// awaitNextAttempt waits until the time of the next attempt, which the subscription contains. It waits at most
// MaxRetry, because the clock may have been set back after this time was stored.
func (d *delivery) awaitNextAttempt(ctx context.Context) error {
	begun := time.Now()
	for {
		wait := min(time.Until(time.Unix(0, d.sub.NextAt)), d.o.cfg.MaxRetry-time.Since(begun))
		if d.sub.NextAt == 0 || wait <= 0 {
			return nil
		}
		select {
		case <-time.After(min(wait, clockRecheck)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *Outbox) count(kind machine.SubscriptionKind, became AttemptOutcome) {
	if o.cfg.Counts != nil {
		o.cfg.Counts.Delivery(kind, became)
	}
}

func (o *Outbox) fault(kind machine.SubscriptionKind, doing Activity) {
	if o.cfg.Counts != nil {
		o.cfg.Counts.DeliveryFault(kind, doing)
	}
}

// Resend makes one attempt to send a dead letter again. If the letter arrives, Resend removes it.
func (o *Outbox) Resend(ctx context.Context, key machine.SubscriptionKey, n uint64) error {
	sub, err := o.cfg.Subscriptions.Subscription(ctx, key)
	if err != nil {
		return err
	}
	letters, err := o.cfg.Subscriptions.ListDeadLetters(ctx, key, n-1, 1)
	if err != nil {
		return err
	}
	if sub == nil || len(letters) == 0 || letters[0].N != n {
		return &machine.Error{
			Code: machine.CodeNotFound, Reason: "DEAD_LETTER_NOT_FOUND", Field: "n",
			Message: fmt.Sprintf("subscription %q has no dead letter %d", key.ID, n),
		}
	}
	if feed := o.cfg.Feeds[key.Kind]; feed != nil {
		if err := feed.May(sub); err != nil {
			return err
		}
	}
	letter := letters[0]
	if letter.Withheld {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "DEAD_LETTER_WITHHELD", Field: "n",
			Message: "the values of its run can be erased, so the body was not kept: read the run's records",
		}
	}
	err = o.cfg.Post.Post(ctx, sub, machine.Delivery{ID: letter.Event, Type: letter.Type, Body: letter.Body})
	if err != nil {
		return &machine.Error{
			Code: machine.CodeUnavailable, Reason: "DELIVERY_FAILED", Field: "n", Message: "the receiver did not take it: " + publicMessage(err),
		}
	}
	return o.cfg.Subscriptions.DiscardDeadLetter(ctx, key, n)
}
