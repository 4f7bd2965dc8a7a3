package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// SubscriptionStore keeps what follows records and how far it has come.
type SubscriptionStore interface {
	// PutSubscription stores one; before is what it was read as, nil = there must be
	// none. Errors: [machine.ErrSubscriptionChanged].
	PutSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription) error
	// BuryDelivery is PutSubscription with a dead letter in the same commit.
	BuryDelivery(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error
	// Subscription reads one; nil = there is none.
	Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error)
	// Subscriptions lists those of a kind by run and id: of one run, or of all for "".
	Subscriptions(ctx context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	// DropSubscription removes one with its dead letters; one that is not there is no
	// error.
	DropSubscription(ctx context.Context, key machine.SubscriptionKey) error
	// DeadLetters lists those of a subscription behind the number after.
	DeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error)
	// DropDeadLetter removes one.
	DropDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error
}

// Subscribe stores a subscription in place of the one that has its key, if any.
// Where it stands is the caller's to say.
func (e *Engine) Subscribe(ctx context.Context, sub machine.Subscription) error {
	for {
		before, err := e.store.Subscription(ctx, sub.SubscriptionKey)
		if err == nil {
			err = e.store.PutSubscription(ctx, sub, before)
		}
		if !errors.Is(err, machine.ErrSubscriptionChanged) {
			return inSubscription(sub.SubscriptionKey, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Subscription reads one; nil = there is none.
func (e *Engine) Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error) {
	sub, err := e.store.Subscription(ctx, key)
	return sub, inSubscription(key, err)
}

// Subscriptions lists those of a kind: of one run, or of all namespaces and runs
// for "".
func (e *Engine) Subscriptions(ctx context.Context, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error) {
	var all []machine.Subscription
	for _, ns := range e.cfg.Namespaces {
		subs, err := e.store.Subscriptions(ctx, ns, kind, run)
		if err != nil {
			return nil, inSubscription(machine.SubscriptionKey{Run: run}, err)
		}
		all = append(all, subs...)
	}
	return all, nil
}

// Unsubscribe removes one with its dead letters; one that is not there is no error.
func (e *Engine) Unsubscribe(ctx context.Context, key machine.SubscriptionKey) error {
	return inSubscription(key, e.store.DropSubscription(ctx, key))
}

// Advance stores how far a subscription has come, if it is still as it was read;
// [machine.ErrSubscriptionChanged]. A letter is of a delivery that was given up.
func (e *Engine) Advance(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error {
	if letter != nil {
		return inSubscription(sub.SubscriptionKey, e.store.BuryDelivery(ctx, sub, before, *letter))
	}
	return inSubscription(sub.SubscriptionKey, e.store.PutSubscription(ctx, sub, before))
}

// DeadLetters lists those of a subscription behind the number after.
func (e *Engine) DeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	letters, err := e.store.DeadLetters(ctx, key, after, limit)
	return letters, inSubscription(key, err)
}

// DropDeadLetter removes one that was delivered after all.
func (e *Engine) DropDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error {
	return inSubscription(key, e.store.DropDeadLetter(ctx, key, n))
}

func inSubscription(key machine.SubscriptionKey, err error) error {
	if err != nil {
		return fmt.Errorf("runtime: subscription %s%s: %w", key.Run, key.ID, err)
	}
	return nil
}
