package testkit

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// PutSubscription stores a subscription if it is as it was read.
func (d *disk) PutSubscription(_ context.Context, sub machine.Subscription, before *machine.Subscription) error {
	return d.settle(sub, before, nil)
}

// BuryDelivery stores a subscription with a dead letter.
func (d *disk) BuryDelivery(_ context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error {
	return d.settle(sub, before, &letter)
}

func (d *disk) settle(sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, there := d.subscriptions[sub.SubscriptionKey]
	if there != (before != nil) || there && !reflect.DeepEqual(now, *before) {
		return machine.ErrSubscriptionChanged
	}
	d.subscriptions[sub.SubscriptionKey] = sub
	if letter != nil {
		d.letters[sub.SubscriptionKey] = append(d.letters[sub.SubscriptionKey], *letter)
	}
	return nil
}

// Subscription reads one.
func (d *disk) Subscription(_ context.Context, key machine.SubscriptionKey) (*machine.Subscription, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if sub, there := d.subscriptions[key]; there {
		return &sub, nil
	}
	return nil, nil //nolint:nilnil // as the contract says
}

// Subscriptions lists those of a kind.
func (d *disk) Subscriptions(_ context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []machine.Subscription
	for key, sub := range d.subscriptions {
		if key.Namespace == ns && key.Kind == kind && (run == "" || key.Run == run) {
			out = append(out, sub)
		}
	}
	slices.SortFunc(out, func(a, b machine.Subscription) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// DropSubscription removes one with its letters.
func (d *disk) DropSubscription(_ context.Context, key machine.SubscriptionKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.subscriptions, key)
	delete(d.letters, key)
	return nil
}

// DeadLetters lists those behind a number.
func (d *disk) DeadLetters(_ context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []machine.DeadLetter
	for _, letter := range d.letters[key] {
		if letter.N > after && len(out) < limit {
			out = append(out, letter)
		}
	}
	return out, nil
}

// DropDeadLetter removes one.
func (d *disk) DropDeadLetter(_ context.Context, key machine.SubscriptionKey, n uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.letters[key] = slices.DeleteFunc(d.letters[key], func(l machine.DeadLetter) bool { return l.N == n })
	return nil
}
