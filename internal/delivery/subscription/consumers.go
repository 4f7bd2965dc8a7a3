package subscription

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// maxConsumers limits the consumers of a namespace.
const maxConsumers = 1000

// Consumer is a named reader of all runs of a namespace.
type Consumer struct {
	Name  string
	Owner string
	// At is the last acknowledged position.
	At runtime.Cursor
	// CreatedAt is Unix nanoseconds.
	CreatedAt int64
	// Connected reports whether the consumer has an open watch.
	Connected bool
}

// ConsumerRef names a consumer.
type ConsumerRef struct {
	runtime.Call
	Name string
}

// Reading is the open watch of one consumer. It implements [streams.Reading].
type Reading struct {
	all   *consumers
	key   machine.SubscriptionKey
	ended chan struct{}
	why   error
}

// Ended returns a channel that is closed when the watch must end.
func (r *Reading) Ended() <-chan struct{} { return r.ended }

// Why returns the reason why the watch must end, after Ended is closed.
func (r *Reading) Why() error { return r.why }

// Close reports that the watch has ended.
func (r *Reading) Close() { r.all.disconnect(r.key, r) }

// consumers contains the open watches of all consumers. Each consumer has at most one.
type consumers struct {
	clock runtime.Clock

	mu   sync.Mutex
	open map[machine.SubscriptionKey]*Reading
	// left contains, for each other consumer, the time when its last watch ended.
	left map[machine.SubscriptionKey]time.Time
}

func newConsumers(clock runtime.Clock) *consumers {
	return &consumers{clock: clock, open: make(map[machine.SubscriptionKey]*Reading), left: make(map[machine.SubscriptionKey]time.Time)}
}

// seen returns the time when a consumer last read, as far as this process knows. If the watch of the
// consumer is open, it returns now.
func (c *consumers) seen(key machine.SubscriptionKey, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] != nil {
		return now
	}
	return c.left[key]
}

// enter makes a watch the only watch of its consumer. It ends the earlier watch.
func (c *consumers) enter(key machine.SubscriptionKey) *Reading {
	now := &Reading{all: c, key: key, ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(key, &machine.Error{
		Code: machine.CodeAborted, Reason: "CONSUMER_REPLACED", Field: "consumer", Message: "a newer stream of the consumer was opened",
	})
	c.open[key] = now
	delete(c.left, key)
	return now
}

// end ends the open watch of a consumer, if there is one.
func (c *consumers) end(key machine.SubscriptionKey, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(key, why)
	delete(c.left, key)
}

// close does the same as end. The caller holds the mutex.
func (c *consumers) close(key machine.SubscriptionKey, why error) {
	if now := c.open[key]; now != nil {
		now.why = why
		close(now.ended)
		delete(c.open, key)
	}
}

func (c *consumers) disconnect(key machine.SubscriptionKey, w *Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] == w {
		delete(c.open, key)
		c.left[key] = c.clock.Now()
	}
}

func (c *consumers) connected(key machine.SubscriptionKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[key] != nil
}

func consumerKey(ns uint32, name string) machine.SubscriptionKey {
	return machine.SubscriptionKey{Namespace: ns, Kind: machine.SubscriptionConsumer, ID: name}
}

// Resume returns the position of a consumer. known reports whether the consumer exists. Errors:
// CONSUMER_TAKEN if the consumer belongs to another owner, CONSUMER_EXPIRED if it did not read for too
// long.
func (r *Service) Resume(ctx context.Context, ns uint32, name, owner string) (at runtime.Cursor, known bool, err error) {
	sub, err := r.Subscription(ctx, consumerKey(ns, name))
	if err != nil || sub == nil {
		return at, false, err
	}
	if sub.Owner != owner {
		return at, false, taken("CONSUMER_TAKEN", "consumer", name)
	}
	if sub.Done {
		return at, true, expired(sub)
	}
	return r.SubscriptionCursor(sub), true, nil
}

// Enter makes a watch the only watch of its consumer, and ends the earlier watch. If the consumer is
// new, Enter stores it.
func (r *Service) Enter(ctx context.Context, ns uint32, name, owner string, at runtime.Cursor, known bool) (streams.Reading, error) {
	key := consumerKey(ns, name)
	if !known {
		if err := r.addConsumer(ctx, key, owner, at); err != nil {
			return nil, err
		}
	}
	return r.consumers.enter(key), nil
}

// addConsumer stores a new consumer. If the same owner has stored it in the meantime, addConsumer does
// nothing.
func (r *Service) addConsumer(ctx context.Context, key machine.SubscriptionKey, owner string, at runtime.Cursor) error {
	full := func(have int) error { return tooMany("MAX_CONSUMERS", "consumer", maxConsumers, have+1) }
	_, _, err := r.establish(ctx, key, maxConsumers, full, func(before *machine.Subscription) (*machine.Subscription, error) {
		if before != nil && before.Owner != owner {
			return nil, taken("CONSUMER_TAKEN", "consumer", key.ID)
		}
		if before != nil {
			return nil, nil //nolint:nilnil // it stays unchanged
		}
		return &machine.Subscription{
			SubscriptionKey: key, Owner: owner, CreatedAt: r.cfg.Clock.Now().UnixNano(), SeenAt: r.cfg.Clock.Now().UnixNano(), After: at.Position, Index: at.Index,
		}, nil
	})
	return err
}

// AckConsumer stores the position up to which a consumer has processed records, and syncs it. If the
// consumer already has this position, this is no error.
//
// Errors: CONSUMER_NOT_FOUND, CONSUMER_EXPIRED, BAD_CURSOR, CURSOR_FOREIGN, CURSOR_AHEAD,
// CURSOR_BEHIND, SUBSCRIPTION_CONTENDED.
func (r *Service) AckConsumer(ctx context.Context, ref ConsumerRef, cursor string) error {
	at, err := validate.ParseCursor(cursor)
	if err != nil {
		return inField("cursor", err)
	}
	ns, err := r.readable(ref.Call)
	if err != nil {
		return err
	}
	key := consumerKey(ns, ref.Name)
	_, err = r.change(ctx, key, func(before *machine.Subscription) (*machine.Subscription, error) {
		if before == nil || !owns(ref.Call, before) {
			return nil, absent(key.Kind, key.ID)
		}
		if before.Done {
			return nil, expired(before)
		}
		return r.acknowledged(ctx, before, at)
	})
	return err
}

// acknowledged returns the consumer with a new position. It returns nil if the consumer already has that position.
func (r *Service) acknowledged(ctx context.Context, before *machine.Subscription, at runtime.Cursor) (*machine.Subscription, error) {
	tail, err := r.cfg.Journal.Tail(ctx, before.Namespace)
	if err != nil {
		return nil, inSubscription(before.SubscriptionKey, err)
	}
	if err := at.Resumable(r.cfg.Journal.Epoch(), tail); err != nil {
		return nil, inField("cursor", err)
	}
	order := cmp.Or(cmp.Compare(at.Position, before.After), cmp.Compare(at.Index, before.Index))
	if order < 0 {
		return nil, behind(before, at)
	}
	if order == 0 {
		return nil, nil //nolint:nilnil // it stays unchanged
	}
	sub := *before
	sub.After, sub.Index, sub.SeenAt = at.Position, at.Index, r.cfg.Clock.Now().UnixNano()
	return &sub, nil
}

func behind(sub *machine.Subscription, at runtime.Cursor) error {
	return &machine.Error{
		Code: machine.CodeOutOfRange, Reason: "CURSOR_BEHIND", Field: "cursor",
		Message: "the consumer has acknowledged more than this already", Limit: figure(sub.After), Got: figure(at.Position),
	}
}

// ListConsumers lists the caller's consumers by name, without expired consumers. A caller with the
// scope admin gets all consumers of the namespace.
func (r *Service) ListConsumers(ctx context.Context, call runtime.Call) ([]Consumer, error) {
	subs, err := r.OwnSubscriptions(ctx, call, machine.SubscriptionConsumer)
	if err != nil {
		return nil, err
	}
	out := make([]Consumer, 0, len(subs))
	for i := range subs {
		s := &subs[i]
		if s.Done {
			continue
		}
		out = append(out, Consumer{
			Name: s.ID, Owner: s.Owner, At: r.SubscriptionCursor(s), CreatedAt: s.CreatedAt,
			Connected: r.consumers.connected(s.SubscriptionKey),
		})
	}
	return out, nil
}

// DeleteConsumer deletes a consumer and ends its watch. Error: CONSUMER_NOT_FOUND.
func (r *Service) DeleteConsumer(ctx context.Context, ref ConsumerRef) error {
	key, err := r.removeOwn(ctx, ref.Call, machine.SubscriptionConsumer, ref.Name)
	if err != nil {
		return err
	}
	r.consumers.end(key, absent(machine.SubscriptionConsumer, ref.Name))
	return nil
}
