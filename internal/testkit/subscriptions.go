package testkit

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// PutSubscription stores a subscription if it is as it was read.
func (s *Store) PutSubscription(_ context.Context, sub machine.Subscription, before *machine.Subscription) error {
	return s.disk.settle(sub, before, nil)
}

// BuryDelivery stores a subscription with a dead letter.
func (s *Store) BuryDelivery(_ context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error {
	return s.disk.settle(sub, before, &letter)
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
func (s *Store) Subscription(_ context.Context, key machine.SubscriptionKey) (*machine.Subscription, error) {
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	if sub, there := s.disk.subscriptions[key]; there {
		return &sub, nil
	}
	return nil, nil //nolint:nilnil // as the contract says
}

// Subscriptions lists those of a kind.
func (s *Store) Subscriptions(_ context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error) {
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	var out []machine.Subscription
	for key, sub := range s.disk.subscriptions {
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
func (s *Store) DropSubscription(_ context.Context, key machine.SubscriptionKey) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	delete(s.disk.subscriptions, key)
	delete(s.disk.letters, key)
	return nil
}

// DeadLetters lists those behind a number.
func (s *Store) DeadLetters(_ context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	var out []machine.DeadLetter
	for _, letter := range s.disk.letters[key] {
		if letter.N > after && len(out) < limit {
			out = append(out, letter)
		}
	}
	return out, nil
}

// DropDeadLetter removes one.
func (s *Store) DropDeadLetter(_ context.Context, key machine.SubscriptionKey, n uint64) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.disk.letters[key] = slices.DeleteFunc(s.disk.letters[key], func(l machine.DeadLetter) bool { return l.N == n })
	return nil
}
