package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Store is the part of the store that a Service uses.
type Store interface {
	// PutSubscription stores a subscription if the stored one is still equal to before, which the
	// caller has read. If before is nil, there must be none. Error: [machine.ErrSubscriptionChanged].
	PutSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription) error
	// RecordDeadLetter stores a subscription like PutSubscription, and a dead letter in the same
	// commit.
	RecordDeadLetter(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error
	// Subscription reads a subscription. It returns nil if there is none.
	Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error)
	// Subscriptions lists the subscriptions of a kind for one run, ordered by run and id. If run is "",
	// it lists those of all runs.
	Subscriptions(ctx context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	// DropSubscription removes a subscription and its dead letters. If the subscription is missing,
	// this is no error.
	DropSubscription(ctx context.Context, key machine.SubscriptionKey) error
	// ListDeadLetters lists the dead letters of a subscription whose numbers are greater than after.
	ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error)
	// DiscardDeadLetter removes a dead letter.
	DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error
}

// subscriptionTries limits how often a change of a subscription is attempted. Locks serialize the
// changes, so a second attempt is needed only after a commit whose caller had stopped waiting.
const subscriptionTries = 8

// change calls edit with the current subscription, or nil if there is none, and stores the result. If edit returns nil,
// the subscription stays unchanged. edit must not return nil without an error if there is none. change returns the stored
// subscription.
func (r *Service) change(ctx context.Context, key machine.SubscriptionKey, edit func(before *machine.Subscription) (*machine.Subscription, error)) (machine.Subscription, error) {
	done, err := r.locks.acquire(ctx, key)
	if err != nil {
		return machine.Subscription{}, inSubscription(key, err)
	}
	defer done()
	for range subscriptionTries {
		before, err := r.cfg.Store.Subscription(ctx, key)
		if err != nil {
			return machine.Subscription{}, inSubscription(key, err)
		}
		after, err := edit(before)
		if err != nil {
			return machine.Subscription{}, err
		}
		if after == nil {
			return *before, nil
		}
		if err = r.cfg.Store.PutSubscription(ctx, *after, before); !errors.Is(err, machine.ErrSubscriptionChanged) {
			return *after, inSubscription(key, err)
		}
	}
	return machine.Subscription{}, contended(key)
}

// establish changes a subscription like change, and also creates it if it does not exist. If there are already `most`
// subscriptions of the kind, it returns the error of limit instead of creating one. The quota of the namespace counts
// too. If the subscription belongs to a run, only those of this run count.
func (r *Service) establish(ctx context.Context, key machine.SubscriptionKey, most int, limit func(have int) error, edit func(before *machine.Subscription) (*machine.Subscription, error)) (sub machine.Subscription, created bool, err error) {
	done, err := r.locks.acquire(ctx, siblings(key))
	if err != nil {
		return sub, false, inSubscription(key, err)
	}
	defer done()
	sub, err = r.change(ctx, key, func(before *machine.Subscription) (*machine.Subscription, error) {
		if created = before == nil; created {
			all, err := r.cfg.Store.Subscriptions(ctx, key.Namespace, key.Kind, key.Run)
			if err != nil {
				return nil, inSubscription(key, err)
			}
			have := countUnexpired(all)
			if have >= most {
				return nil, limit(have)
			}
			if of := quotaOf[key.Kind]; of != "" {
				if err := r.cfg.Quotas.CheckCount(key.Namespace, of, have+1); err != nil {
					return nil, err
				}
			}
		}
		return edit(before)
	})
	return sub, created, err
}

// countUnexpired returns the number of subscriptions in all, not counting expired consumers.
func countUnexpired(all []machine.Subscription) (n int) {
	for i := range all {
		if all[i].Kind != machine.SubscriptionConsumer || !all[i].Done {
			n++
		}
	}
	return n
}

// remove removes a subscription and its dead letters. may decides whether the subscription may be
// removed. If may returns an error, remove removes nothing and returns this error.
func (r *Service) remove(ctx context.Context, key machine.SubscriptionKey, may func(*machine.Subscription) error) error {
	done, err := r.locks.acquire(ctx, key)
	if err != nil {
		return inSubscription(key, err)
	}
	defer done()
	sub, err := r.cfg.Store.Subscription(ctx, key)
	if err != nil {
		return inSubscription(key, err)
	}
	if err := may(sub); err != nil || sub == nil {
		return err
	}
	return inSubscription(key, r.cfg.Store.DropSubscription(ctx, key))
}

// quotaOf maps the kinds of subscriptions to their quotas. Push configurations of tasks have no quota,
// because the number of tasks is limited.
var quotaOf = map[machine.SubscriptionKind]quota.Resource{
	machine.SubscriptionWebhook: quota.Webhooks, machine.SubscriptionConsumer: quota.Consumers,
}

func contended(key machine.SubscriptionKey) error {
	return &machine.Error{
		Code: machine.CodeAborted, Reason: "SUBSCRIPTION_CONTENDED", Field: "delivery_ref",
		Message: fmt.Sprintf("%q was changed by others %d times in a row; try again", key.ID, subscriptionTries),
	}
}

// Subscribe stores a subscription, with the position that the caller has set. It replaces a
// subscription with the same key. If the run already has `most` other subscriptions, it returns the
// error of limit.
func (r *Service) Subscribe(ctx context.Context, sub machine.Subscription, most int, limit func(have int) error) error {
	_, _, err := r.establish(ctx, sub.SubscriptionKey, most, limit, func(*machine.Subscription) (*machine.Subscription, error) {
		return &sub, nil
	})
	return err
}

// Subscription reads a subscription. It returns nil if there is none.
func (r *Service) Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error) {
	sub, err := r.cfg.Store.Subscription(ctx, key)
	return sub, inSubscription(key, err)
}

// Subscriptions lists the subscriptions of a kind for one run. If run is "", it lists those of all
// namespaces and runs.
func (r *Service) Subscriptions(ctx context.Context, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error) {
	var all []machine.Subscription
	for _, ns := range r.cfg.Engine.NamespaceNumbers() {
		subs, err := r.cfg.Store.Subscriptions(ctx, ns, kind, run)
		if err != nil {
			return nil, inSubscription(machine.SubscriptionKey{Run: run}, err)
		}
		all = append(all, subs...)
	}
	return all, nil
}

// Unsubscribe removes a subscription and its dead letters. If the subscription is missing, this is no
// error.
func (r *Service) Unsubscribe(ctx context.Context, key machine.SubscriptionKey) error {
	return r.remove(ctx, key, func(*machine.Subscription) error { return nil })
}

// Advance stores that everything up to a position was delivered, and returns the subscription. It does
// so even if other fields of the subscription have changed. The position never goes back.
// [machine.ErrSubscriptionChanged] means that the subscription was removed, or replaced by another with
// the same key.
func (r *Service) Advance(ctx context.Context, of *machine.Subscription, after uint64, index uint16) (machine.Subscription, error) {
	return r.change(ctx, of.SubscriptionKey, func(now *machine.Subscription) (*machine.Subscription, error) {
		if now == nil || now.CreatedAt != of.CreatedAt || now.Owner != of.Owner {
			return nil, inSubscription(of.SubscriptionKey, machine.ErrSubscriptionChanged)
		}
		if cmp.Or(cmp.Compare(after, now.After), cmp.Compare(index, now.Index)) <= 0 {
			return nil, nil //nolint:nilnil // it stays unchanged
		}
		next := *now
		next.After, next.Index = after, index
		next.Attempts, next.NextAt, next.LastError = 0, 0, ""
		return &next, nil
	})
}

// NoteTry stores the outcome of a failed attempt to send an event, a change of the owner's right to read, or the end of
// the subscription. letter is the dead letter if the last attempt failed, otherwise nil. If the subscription has changed
// since before was read, NoteTry returns [machine.ErrSubscriptionChanged].
func (r *Service) NoteTry(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error {
	done, err := r.locks.acquire(ctx, sub.SubscriptionKey)
	if err != nil {
		return inSubscription(sub.SubscriptionKey, err)
	}
	defer done()
	if letter != nil {
		return inSubscription(sub.SubscriptionKey, r.cfg.Store.RecordDeadLetter(ctx, sub, before, *letter))
	}
	return inSubscription(sub.SubscriptionKey, r.cfg.Store.PutSubscription(ctx, sub, before))
}

// ListDeadLetters lists the dead letters of a subscription whose numbers are greater than after.
func (r *Service) ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	letters, err := r.cfg.Store.ListDeadLetters(ctx, key, after, limit)
	return letters, inSubscription(key, err)
}

// DiscardDeadLetter removes a dead letter.
func (r *Service) DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error {
	return inSubscription(key, r.cfg.Store.DiscardDeadLetter(ctx, key, n))
}

func inSubscription(key machine.SubscriptionKey, err error) error {
	if err != nil {
		return fmt.Errorf("subscription: %s%s: %w", key.Run, key.ID, err)
	}
	return nil
}
