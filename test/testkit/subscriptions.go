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

// RecordDeadLetter stores a subscription with a dead letter.
func (d *disk) RecordDeadLetter(_ context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error {
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
		d.deadLetters[sub.SubscriptionKey] = append(d.deadLetters[sub.SubscriptionKey], *letter)
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
	delete(d.deadLetters, key)
	return nil
}

// ListDeadLetters lists those behind a number.
func (d *disk) ListDeadLetters(_ context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []machine.DeadLetter
	for _, letter := range d.deadLetters[key] {
		if letter.N > after && len(out) < limit {
			out = append(out, letter)
		}
	}
	return out, nil
}

// DiscardDeadLetter removes one.
func (d *disk) DiscardDeadLetter(_ context.Context, key machine.SubscriptionKey, n uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadLetters[key] = slices.DeleteFunc(d.deadLetters[key], func(l machine.DeadLetter) bool { return l.N == n })
	return nil
}
