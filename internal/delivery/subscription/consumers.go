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
	// Connected reports whether the consumer has an open stream of records (watch).
	Connected bool
}

// ConsumerRef names a consumer.
type ConsumerRef struct {
	runtime.Call
	Name string
}

// ConsumerWatch is the open stream of records (watch) of one consumer. It implements [streams.ConsumerWatch].
type ConsumerWatch struct {
	consumers *consumers
	key       machine.SubscriptionKey
	ended     chan struct{}
	reason    error
}

// Ended returns a channel that is closed when the consumer's stream of records must end.
func (r *ConsumerWatch) Ended() <-chan struct{} { return r.ended }

// EndReason returns the reason why the consumer's stream of records must end. It may be called after Ended is
// closed.
func (r *ConsumerWatch) EndReason() error { return r.reason }

// Close reports that the watch has ended.
func (r *ConsumerWatch) Close() { r.consumers.disconnect(r.key, r) }

// consumers contains the open watches of all consumers, which are their streams of records. Each
// consumer has at most one.
type consumers struct {
	clock runtime.Clock

	mu   sync.Mutex
	open map[machine.SubscriptionKey]*ConsumerWatch
	// lastWatchEnds contains, for each consumer without an open watch, the time when its last watch in this process
	// ended.
	lastWatchEnds map[machine.SubscriptionKey]time.Time
}

func newConsumers(clock runtime.Clock) *consumers {
	return &consumers{clock: clock, open: make(map[machine.SubscriptionKey]*ConsumerWatch), lastWatchEnds: make(map[machine.SubscriptionKey]time.Time)}
}

// lastRead returns the time when a consumer last read records, as far as this process knows. While the
// consumer has an open stream of records (watch), this is now.
func (c *consumers) lastRead(key machine.SubscriptionKey, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] != nil {
		return now
	}
	return c.lastWatchEnds[key]
}

// openWatch registers a new stream of records (watch) of a consumer. If the consumer already has an open
// stream, openWatch ends it.
func (c *consumers) openWatch(key machine.SubscriptionKey) *ConsumerWatch {
	now := &ConsumerWatch{consumers: c, key: key, ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(key, &machine.Error{
		Code: machine.CodeAborted, Reason: "CONSUMER_REPLACED", Field: "consumer", Message: "a newer stream of the consumer was opened",
	})
	c.open[key] = now
	delete(c.lastWatchEnds, key)
	return now
}

// end ends the open stream of records (watch) of a consumer, if there is one.
func (c *consumers) end(key machine.SubscriptionKey, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(key, why)
	delete(c.lastWatchEnds, key)
}

// close ends the open stream of records (watch) of a consumer with the error why. The caller holds the
// mutex c.mu.
func (c *consumers) close(key machine.SubscriptionKey, why error) {
	if now := c.open[key]; now != nil {
		now.reason = why
		close(now.ended)
		delete(c.open, key)
	}
}

func (c *consumers) disconnect(key machine.SubscriptionKey, w *ConsumerWatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] == w {
		delete(c.open, key)
		c.lastWatchEnds[key] = c.clock.Now()
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

// Resume returns the position at which a consumer continues to read. known reports whether the consumer exists and
// belongs to owner. Errors: CONSUMER_TAKEN if the consumer belongs to another owner, CONSUMER_EXPIRED if the consumer did
// not read for too long.
func (r *Service) Resume(ctx context.Context, ns uint32, name, owner string) (at runtime.Cursor, known bool, err error) {
	sub, err := r.Subscription(ctx, consumerKey(ns, name))
	if err != nil || sub == nil {
		return at, false, err
	}
	if sub.Owner != owner {
		return at, false, nameTakenError("CONSUMER_TAKEN", "consumer", name)
	}
	if sub.Done {
		return at, true, expiredError(sub)
	}
	return r.SubscriptionCursor(sub), true, nil
}

// Enter registers a new stream of records (watch) of a consumer, and ends the consumer's earlier one.
// If the consumer does not exist (known is false), Enter stores it.
func (r *Service) Enter(ctx context.Context, ns uint32, name, owner string, at runtime.Cursor, known bool) (streams.ConsumerWatch, error) {
	key := consumerKey(ns, name)
	if !known {
		if err := r.addConsumer(ctx, key, owner, at); err != nil {
			return nil, err
		}
	}
	return r.consumers.openWatch(key), nil
}

// addConsumer stores a new consumer. If another call with the same owner has stored it in the meantime,
// addConsumer does nothing.
func (r *Service) addConsumer(ctx context.Context, key machine.SubscriptionKey, owner string, at runtime.Cursor) error {
	full := func(have int) error { return tooMany("MAX_CONSUMERS", "consumer", maxConsumers, have+1) }
	_, _, err := r.establish(ctx, key, maxConsumers, full, func(before *machine.Subscription) (*machine.Subscription, error) {
		if before != nil && before.Owner != owner {
			return nil, nameTakenError("CONSUMER_TAKEN", "consumer", key.ID)
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

// AckConsumer stores and syncs the position up to which a consumer has processed records. If the
// consumer already has this position, this is no error.
//
// Errors: CONSUMER_NOT_FOUND, CONSUMER_EXPIRED, BAD_CURSOR, CURSOR_FOREIGN, CURSOR_AHEAD,
// CURSOR_BEHIND, SUBSCRIPTION_CONTENDED.
func (r *Service) AckConsumer(ctx context.Context, ref ConsumerRef, cursor string) error {
	at, err := validate.ParseCursor(cursor)
	if err != nil {
		return inField("cursor", err)
	}
	ns, err := r.readableNamespace(ref.Call)
	if err != nil {
		return err
	}
	key := consumerKey(ns, ref.Name)
	_, err = r.change(ctx, key, func(before *machine.Subscription) (*machine.Subscription, error) {
		if before == nil || !isOwner(ref.Call, before) {
			return nil, notFoundError(key.Kind, key.ID)
		}
		if before.Done {
			return nil, expiredError(before)
		}
		return r.acknowledged(ctx, before, at)
	})
	return err
}

// acknowledged returns the consumer with at as its new position. If the consumer already has this
// position, it returns nil. If the position is invalid or before the current one, it returns an error.
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
		Message: "the consumer has acknowledged more than this already", Limit: toInt64(sub.After), Got: toInt64(at.Position),
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

// DeleteConsumer deletes a consumer and ends its open stream of records. Error: CONSUMER_NOT_FOUND.
func (r *Service) DeleteConsumer(ctx context.Context, ref ConsumerRef) error {
	key, err := r.removeOwn(ctx, ref.Call, machine.SubscriptionConsumer, ref.Name)
	if err != nil {
		return err
	}
	r.consumers.end(key, notFoundError(machine.SubscriptionConsumer, ref.Name))
	return nil
}
