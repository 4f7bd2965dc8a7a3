package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Store keeps what follows records and how far it has come.
type Store interface {
	// PutSubscription stores one; before is what it was read as, nil = there must be
	// none. Errors: [machine.ErrSubscriptionChanged].
	PutSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription) error
	// RecordDeadLetter is PutSubscription with a dead letter in the same commit.
	RecordDeadLetter(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error
	// Subscription reads one; nil = there is none.
	Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error)
	// Subscriptions lists those of a kind by run and id: of one run, or of all for "".
	Subscriptions(ctx context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	// DropSubscription removes one with its dead letters; one that is not there is no
	// error.
	DropSubscription(ctx context.Context, key machine.SubscriptionKey) error
	// ListDeadLetters lists those of a subscription behind the number after.
	ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error)
	// DiscardDeadLetter removes one.
	DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error
}

// subscriptionTries limits the retries of a change. Locks serialize changes; only a commit
// whose caller did not wait for it can come between.
const subscriptionTries = 8

// change has a subscription judged as it is now, nil = there is none, and stores what
// comes of it; nil = it stays as it is. It returns what is stored then.
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

// establish is change for one that may be made, of which there are at most so many of
// its kind (of its run, if it has one): limit is the refusal when there are.
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
			have := kept(all)
			if have >= most {
				return nil, limit(have)
			}
			if of := quotaOf[key.Kind]; of != "" {
				if err := r.cfg.Quotas.Within(key.Namespace, of, have+1); err != nil {
					return nil, err
				}
			}
		}
		return edit(before)
	})
	return sub, created, err
}

// kept counts subscriptions, without expired consumers.
func kept(all []machine.Subscription) (n int) {
	for i := range all {
		if all[i].Kind != machine.SubscriptionConsumer || !all[i].Done {
			n++
		}
	}
	return n
}

// remove drops a subscription with its dead letters, if may says so of it as it is now.
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

// quotaOf is what a namespace's subscriptions of a kind count as; those of tasks are
// bounded by their tasks.
var quotaOf = map[machine.SubscriptionKind]quota.Resource{
	machine.SubscriptionWebhook: quota.Webhooks, machine.SubscriptionConsumer: quota.Consumers,
}

func contended(key machine.SubscriptionKey) error {
	return &machine.Error{
		Code: machine.CodeAborted, Reason: "SUBSCRIPTION_CONTENDED", Field: "delivery_ref",
		Message: fmt.Sprintf("%q was changed by others %d times in a row; try again", key.ID, subscriptionTries),
	}
}

// Subscribe stores a subscription in place of the one that has its key, if any; limit
// is the refusal when its run has most others already. Where it stands is the caller's
// to say.
func (r *Service) Subscribe(ctx context.Context, sub machine.Subscription, most int, limit func(have int) error) error {
	_, _, err := r.establish(ctx, sub.SubscriptionKey, most, limit, func(*machine.Subscription) (*machine.Subscription, error) {
		return &sub, nil
	})
	return err
}

// Subscription reads one; nil = there is none.
func (r *Service) Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error) {
	sub, err := r.cfg.Store.Subscription(ctx, key)
	return sub, inSubscription(key, err)
}

// Subscriptions lists those of a kind: of one run, or of all namespaces and runs
// for "".
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

// Unsubscribe removes one with its dead letters; one that is not there is no error.
func (r *Service) Unsubscribe(ctx context.Context, key machine.SubscriptionKey) error {
	return r.remove(ctx, key, func(*machine.Subscription) error { return nil })
}

// Advance stores that everything up to a position was delivered, if the subscription still
// exists, even if other fields of it have changed, and returns it. The position never goes
// back. [machine.ErrSubscriptionChanged]: it was removed, or another one has its key.
func (r *Service) Advance(ctx context.Context, of *machine.Subscription, after uint64, index uint16) (machine.Subscription, error) {
	return r.change(ctx, of.SubscriptionKey, func(now *machine.Subscription) (*machine.Subscription, error) {
		if now == nil || now.CreatedAt != of.CreatedAt || now.Owner != of.Owner {
			return nil, inSubscription(of.SubscriptionKey, machine.ErrSubscriptionChanged)
		}
		if cmp.Or(cmp.Compare(after, now.After), cmp.Compare(index, now.Index)) <= 0 {
			return nil, nil //nolint:nilnil // it stays as it is
		}
		next := *now
		next.After, next.Index = after, index
		next.Attempts, next.NextAt, next.LastError = 0, 0, ""
		return &next, nil
	})
}

// NoteTry stores the outcome of a failed try, or the end of the subscription, if the
// subscription is unchanged since it was read; otherwise [machine.ErrSubscriptionChanged]. A
// letter is of a delivery that failed after the last attempt.
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

// ListDeadLetters lists those of a subscription behind the number after.
func (r *Service) ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	letters, err := r.cfg.Store.ListDeadLetters(ctx, key, after, limit)
	return letters, inSubscription(key, err)
}

// DiscardDeadLetter removes one that was delivered after all.
func (r *Service) DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error {
	return inSubscription(key, r.cfg.Store.DiscardDeadLetter(ctx, key, n))
}

func inSubscription(key machine.SubscriptionKey, err error) error {
	if err != nil {
		return fmt.Errorf("subscription: %s%s: %w", key.Run, key.ID, err)
	}
	return nil
}
