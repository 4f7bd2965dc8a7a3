package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

func subscriptionKey(row byte, key machine.SubscriptionKey) []byte {
	b := append(prefix(nil, row, key.Namespace), byte(key.Kind))
	return name(name(b, key.Run), key.ID)
}

func deadLetterKey(key machine.SubscriptionKey, n uint64) []byte {
	return number(subscriptionKey(kindDeadLetter, key), n)
}

// readSubscriptionKey is the inverse of subscriptionKey; rest is what follows.
func readSubscriptionKey(b []byte) (key machine.SubscriptionKey, rest []byte, err error) {
	if len(b) < 6 {
		return key, nil, fmt.Errorf("malformed subscription key %x", b)
	}
	key.Namespace, key.Kind = binary.BigEndian.Uint32(b[1:5]), machine.SubscriptionKind(b[5])
	var ok bool
	if key.Run, rest, ok = cutName(b[6:]); ok {
		key.ID, rest, ok = cutName(rest)
	}
	if !ok {
		return key, nil, fmt.Errorf("malformed subscription key %x", b)
	}
	return key, rest, nil
}

// PutSubscription stores a subscription, synced. before is what it was read as, nil
// = there must be none; [machine.ErrSubscriptionChanged].
func (s *Store) PutSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription) error {
	return s.settle(ctx, sub, before, nil)
}

// BuryDelivery stores a subscription that has given a delivery up together with
// its dead letter, synced; [machine.ErrSubscriptionChanged].
func (s *Store) BuryDelivery(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error {
	return s.settle(ctx, sub, before, &letter)
}

func (s *Store) settle(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error {
	key := subscriptionKey(kindSubscription, sub.SubscriptionKey)
	is := expect{key: key, miss: machine.ErrSubscriptionChanged}
	if before != nil {
		is.value = codec.EncodeSubscription(before)
	}
	w := &Writes{ns: sub.Namespace, entry: -1, expects: []expect{is}, ops: []Op{{Key: key, Value: codec.EncodeSubscription(&sub)}}}
	if letter != nil {
		w.ops = append(w.ops, Op{Key: deadLetterKey(sub.SubscriptionKey, letter.N), Value: codec.EncodeDeadLetter(letter)})
	}
	return s.submitRows(ctx, w)
}

// Subscription reads one; nil: there is none.
func (s *Store) Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error) {
	var out *machine.Subscription
	err := s.view(func(txn *badger.Txn) error {
		value, err := get(txn, subscriptionKey(kindSubscription, key))
		if err != nil || value == nil {
			return err
		}
		sub, err := codec.DecodeSubscription(value)
		sub.SubscriptionKey, out = key, &sub
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscription %q: %w", key.ID, err)
	}
	return out, ctx.Err()
}

// Subscriptions lists those of a kind in the order of run and id: of one run, or of
// all runs for "".
func (s *Store) Subscriptions(ctx context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error) {
	p := append(prefix(nil, kindSubscription, ns), byte(kind))
	if run != "" {
		p = name(p, run)
	}
	var out []machine.Subscription
	err := s.rows(ctx, p, func(key, value []byte) error {
		sub, err := codec.DecodeSubscription(value)
		if err == nil {
			sub.SubscriptionKey, _, err = readSubscriptionKey(key)
		}
		out = append(out, sub)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscriptions: %w", err)
	}
	return out, nil
}

// DropSubscription removes a subscription and its dead letters, synced; one that is
// not there is no error.
func (s *Store) DropSubscription(ctx context.Context, key machine.SubscriptionKey) error {
	ops := []Op{{Key: subscriptionKey(kindSubscription, key), Delete: true}}
	err := s.rows(ctx, subscriptionKey(kindDeadLetter, key), func(row, _ []byte) error {
		ops = append(ops, Op{Key: row, Delete: true})
		return nil
	})
	if err != nil {
		return fmt.Errorf("drop subscription %q: %w", key.ID, err)
	}
	return s.submitRows(ctx, &Writes{ns: key.Namespace, entry: -1, ops: ops})
}

// DeadLetters lists those of a subscription behind the number after, at most limit.
func (s *Store) DeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	var out []machine.DeadLetter
	err := s.rows(ctx, subscriptionKey(kindDeadLetter, key), func(row, value []byte) error {
		n := binary.BigEndian.Uint64(row[len(row)-8:])
		if n <= after || len(out) == limit {
			return nil
		}
		letter, err := codec.DecodeDeadLetter(value)
		letter.N = n
		out = append(out, letter)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters of %q: %w", key.ID, err)
	}
	return out, nil
}

// DropDeadLetter removes a letter that was delivered after all, synced.
func (s *Store) DropDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error {
	return s.submitRows(ctx, &Writes{ns: key.Namespace, entry: -1, ops: []Op{{Key: deadLetterKey(key, n), Delete: true}}})
}

// rows visits the rows under a prefix with copies of key and value.
func (s *Store) rows(ctx context.Context, p []byte, visit func(key, value []byte) error) error {
	return s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: p})
		defer it.Close()
		for it.Rewind(); has(it, p); it.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			value, err := copyOf(it.Item())
			if err == nil {
				err = visit(slices.Clone(it.Item().Key()), value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
