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
	Delivery(kind machine.SubscriptionKind, became Became)
	// DeliveryFault counts an internal error that blocks a delivery. doing is the action during which
	// the error occurred.
	DeliveryFault(kind machine.SubscriptionKind, doing Doing)
}

// Became is the outcome of one attempt of a delivery.
type Became string

// These are the outcomes of an attempt: the event arrived, the attempt failed, or the last attempt
// failed.
const (
	Delivered Became = "delivered"
	Failed    Became = "failed"
	Dead      Became = "dead"
)

// Doing is the action of a delivery during which an internal error occurred.
type Doing string

// These are the actions: reading from the store, and storing the position.
const (
	Reading Doing = "read"
	Storing Doing = "store"
)

// Serve starts the deliveries of a new or changed subscription. It returns after the deliveries of the
// earlier version of the subscription have ended.
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
		defer o.unserve(key, s)
		before.end()
		(&delivery{o: o, key: key, feed: feed}).run(ctx)
	})
	o.mu.Unlock()
	before.end()
}

// unserve removes a sender that has ended.
func (o *Outbox) unserve(key machine.SubscriptionKey, s *sender) {
	s.stop()
	close(s.done)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.subs[key] == s {
		delete(o.subs, key)
	}
}

// Stop ends the deliveries of a removed subscription. After it has returned, the receiver gets no more
// messages. If Serve was already called for a new subscription with the same key, Stop starts the
// deliveries of the new one again.
func (o *Outbox) Stop(key machine.SubscriptionKey) {
	o.mu.Lock()
	s := o.subs[key]
	delete(o.subs, key)
	o.mu.Unlock()
	s.end()
	if s != nil {
		// If there is no new subscription, these deliveries end immediately.
		o.Serve(key)
	}
}

// end stops the deliveries of a subscription and waits until they have ended. For a nil sender it does
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
	// position stores the position of the subscription after the delivered events.
	position position
	// moved reports whether a delivery has succeeded since the last internal error.
	moved bool
}

// run delivers until the subscription or ctx has ended. After an internal error it waits. The wait gets
// longer with each error, until a delivery succeeds.
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

// serve delivers events until the subscription has ended (io.EOF) or an internal error occurs.
func (d *delivery) serve(ctx context.Context) (doing Doing, err error) {
	if d.sub, err = d.o.cfg.Subscriptions.Subscription(ctx, d.key); err != nil {
		return Reading, err
	}
	if d.sub == nil || d.sub.Done {
		return Reading, io.EOF
	}
	if err := d.storePending(ctx); err != nil {
		return Storing, err
	}
	if err := d.allowed(ctx); err != nil {
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

// allowed returns an error if the owner may no longer read the records. A change of this right is
// stored in the subscription's LastError, where the owner and the operator can see it.
func (d *delivery) allowed(ctx context.Context) error {
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
	return errors.Join(refused, d.note(ctx, sub, nil))
}

// lostRight is the beginning of the error text for an owner that has lost its right.
const lostRight = "OWNER_LOST_RIGHT"

// storePending stores the position after the events that were delivered before an internal error, so
// that these events are not sent again. If the subscription was replaced in the meantime, the position
// is dropped.
func (d *delivery) storePending(ctx context.Context) error {
	err := d.flush(ctx)
	if errors.Is(err, machine.ErrSubscriptionChanged) {
		d.position.forget()
		return nil
	}
	return err
}

// finish stores that the subscription has ended.
func (d *delivery) finish(ctx context.Context) error {
	sub := *d.sub
	sub.Done = true
	if err := d.note(ctx, sub, nil); err != nil {
		return err
	}
	return io.EOF
}

// deliverAll delivers events in order. While it sends an event, the position after the previous event
// is stored. When deliverAll returns, all positions are stored.
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
		if err := d.due(ctx); err != nil {
			return err
		}
		if event.ID == "" {
			return d.advance(ctx, event)
		}
		if err := d.allowed(ctx); err != nil {
			return err
		}
		cause := d.o.cfg.Post.Post(ctx, d.sub, *event)
		if cause == nil {
			// The answer of the receiver is used even if ctx has ended in the meantime.
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

// retry records a failed attempt. If it was the last attempt, the event becomes a dead letter, given is
// true, and the next event can be sent.
func (d *delivery) retry(ctx context.Context, event *machine.Delivery, cause error) (given bool, err error) {
	now, sub := time.Now(), *d.sub
	sub.Attempts++
	sub.LastError = clip(publicMessage(cause), maxMessage)
	d.o.cfg.Log.InfoContext(ctx, "delivery failed", "subscription_id", d.key.ID, "run_id", d.key.Run, "attempt", sub.Attempts, "error", withoutURL(cause))
	if sub.Attempts < d.o.cfg.Tries {
		d.o.count(d.key.Kind, Failed)
		pause := d.o.cfg.Pause << min(sub.Attempts, 20)
		sub.NextAt = now.Add(min(pause, d.o.cfg.MaxRetry)).UnixNano()
		return false, d.note(ctx, sub, nil)
	}
	d.o.count(d.key.Kind, Dead)
	sub.Dead++
	letter := &machine.DeadLetter{N: sub.Dead, At: now.UnixNano(), Event: event.ID, Type: event.Type, Body: event.Body, Error: sub.LastError, Withheld: event.Erasable}
	if letter.Withheld {
		letter.Body = nil
	}
	sub.After, sub.Index, sub.Attempts, sub.NextAt = event.After, event.Index, 0, 0
	d.moved = true
	return true, d.note(ctx, sub, letter)
}

// note stores a changed subscription and, if there is one, a dead letter. It returns an error if
// another caller has changed the subscription after it was read.
func (d *delivery) note(ctx context.Context, sub machine.Subscription, letter *machine.DeadLetter) error {
	if err := d.o.cfg.Subscriptions.NoteTry(ctx, sub, d.sub, letter); err != nil {
		return err
	}
	d.sub = &sub
	return nil
}

// clockRecheck is the longest time that due sleeps before it reads the clock again. The operator may
// set the clock in the meantime.
const clockRecheck = time.Second

// due waits until the time of the next attempt, but not longer than MaxRetry, because the clock may
// have been set back after the time was stored.
func (d *delivery) due(ctx context.Context) error {
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

func (o *Outbox) count(kind machine.SubscriptionKind, became Became) {
	if o.cfg.Counts != nil {
		o.cfg.Counts.Delivery(kind, became)
	}
}

func (o *Outbox) fault(kind machine.SubscriptionKind, doing Doing) {
	if o.cfg.Counts != nil {
		o.cfg.Counts.DeliveryFault(kind, doing)
	}
}

// Resend sends a dead letter again. If the letter arrives, Resend removes it.
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
