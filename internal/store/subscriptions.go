package store

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// PutSubscription stores a subscription and waits until it is synced. before is the subscription that
// the caller has read. It is nil if none may exist. If the stored subscription is different, the error
// is [machine.ErrSubscriptionChanged].
func (s *Store) PutSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription) error {
	return s.writeSubscription(ctx, sub, before, nil)
}

// RecordDeadLetter stores a dead letter together with the new state of its subscription, and waits
// until both are synced. If the stored subscription differs from before, the error is
// [machine.ErrSubscriptionChanged].
func (s *Store) RecordDeadLetter(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter machine.DeadLetter) error {
	return s.writeSubscription(ctx, sub, before, &letter)
}

func (s *Store) writeSubscription(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error {
	key, box := layout.SubscriptionKey(layout.KindSubscription, sub.SubscriptionKey), layout.SubscriptionKey(layout.KindDeadLetter, sub.SubscriptionKey)
	is := expect{key: key, err: machine.ErrSubscriptionChanged}
	if before != nil {
		is.value = codec.EncodeSubscription(before)
	}
	w := &Writes{ns: sub.Namespace, entry: -1, expects: []expect{is}, ops: []layout.Op{{Key: key, Value: codec.EncodeSubscription(&sub)}}}
	if before == nil {
		// There may be dead letters of an earlier subscription with the same key. They must not become
		// dead letters of this one.
		w.expects = append(w.expects, undropped(box, machine.ErrSubscriptionChanged))
		if sub.Run != "" {
			kept, err := s.keptOf(sub.Namespace, sub.Run)
			if err != nil {
				return fmt.Errorf("subscription %q: %w", sub.ID, err)
			}
			w.expects = append(w.expects, expect{key: layout.DeletedKey(sub.Namespace, sub.Run), value: kept, err: machine.ErrSubscriptionChanged})
		}
	}
	if letter == nil {
		return s.write(ctx, w)
	}
	old, err := s.deadLetterTrimmer().Oldest(box, maxDeadLetters, maxDeadLetterBytes)
	if err != nil {
		return fmt.Errorf("dead letters of %q: %w", sub.ID, err)
	}
	w.ops = append(append(w.ops, old...), layout.Op{Key: layout.DeadLetterKey(sub.SubscriptionKey, letter.N), Value: codec.EncodeDeadLetter(letter)})
	if err := s.write(ctx, w); err != nil || len(old) == 0 {
		return err
	}
	s.opts.Logger.Warn("oldest dead letters removed, limit reached", "subscription_id", sub.ID, "run_id", sub.Run, "count", len(old))
	return nil
}

// keptOf returns the value that the row of the run's deletion must have when a subscription to the run
// is stored. It is nil or, if the run was deleted and imported again, the row of the earlier deletion.
// If the run is deleted now, the row changes and the commit fails.
func (s *Store) keptOf(ns uint32, run string) (kept []byte, err error) {
	err = s.view(func(txn *layout.Txn) error {
		if there, err := layout.There(txn, ns, run); err != nil || !there {
			return err
		}
		kept, err = layout.Get(txn, layout.DeletedKey(ns, run))
		return err
	})
	return kept, err
}

// Subscription returns a subscription. It returns nil if the subscription does not exist.
func (s *Store) Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error) {
	var out *machine.Subscription
	err := s.view(func(txn *layout.Txn) error {
		value, err := layout.Get(txn, layout.SubscriptionKey(layout.KindSubscription, key))
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

// Subscriptions lists the subscriptions of a kind, in the order of run and id. If run is "", it lists
// the subscriptions of all runs.
func (s *Store) Subscriptions(ctx context.Context, ns uint32, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error) {
	p := append(layout.Prefix(nil, layout.KindSubscription, ns), byte(kind))
	if run != "" {
		p = layout.AppendName(p, run)
	}
	var out []machine.Subscription
	err := s.rows(ctx, p, func(key, value []byte) error {
		sub, err := codec.DecodeSubscription(value)
		if err == nil {
			sub.SubscriptionKey, _, err = layout.ReadSubscriptionKey(key)
		}
		out = append(out, sub)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscriptions: %w", err)
	}
	return out, nil
}

// DropSubscription removes a subscription, waits until this is synced, and then removes its dead
// letters. If the subscription is missing, this is no error. After the first of these commits the
// subscription no longer exists, even if a later commit fails.
func (s *Store) DropSubscription(ctx context.Context, key machine.SubscriptionKey) error {
	w := &Writes{ns: key.Namespace, entry: -1, reclaimsSpace: true, ops: []layout.Op{{Key: layout.SubscriptionKey(layout.KindSubscription, key), Delete: true}}}
	w.drop(layout.SubscriptionKey(layout.KindDeadLetter, key))
	if err := s.write(ctx, w); err != nil {
		return fmt.Errorf("drop subscription %q: %w", key.ID, err)
	}
	return nil
}

// ListDeadLetters returns at most limit dead letters of a subscription whose number is greater than
// after.
func (s *Store) ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error) {
	var out []machine.DeadLetter
	p := layout.SubscriptionKey(layout.KindDeadLetter, key)
	err := s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Seek(layout.Number(slices.Clone(p), after+1)); after < math.MaxUint64 && layout.Has(it, p) && len(out) < limit; it.Next() {
			n, err := layout.LastNumber(it.Key(), p)
			if err != nil {
				return err
			}
			value, err := layout.CopyOf(it)
			if err != nil {
				return err
			}
			letter, err := codec.DecodeDeadLetter(value)
			if err != nil {
				return err
			}
			letter.N = n
			out = append(out, letter)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters of %q: %w", key.ID, err)
	}
	return out, nil
}

// DiscardDeadLetter removes a dead letter that was delivered later, and waits until the removal is
// synced.
func (s *Store) DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error {
	return s.write(ctx, &Writes{ns: key.Namespace, entry: -1, reclaimsSpace: true, ops: []layout.Op{{Key: layout.DeadLetterKey(key, n), Delete: true}}})
}

// TrimDeadLetters removes dead letters of a namespace that are too old or too many, see
// [letterTrimmer.Trim].
func (s *Store) TrimDeadLetters(ctx context.Context, ns uint32, before int64, most int) (int, error) {
	return s.deadLetterTrimmer().Trim(ctx, ns, before, most)
}

func (s *Store) deadLetterTrimmer() *letterTrimmer {
	return &letterTrimmer{View: s.view, Write: func(ctx context.Context, ns uint32, ops []layout.Op) error {
		return s.write(ctx, &Writes{ns: ns, entry: -1, ops: ops, reclaimsSpace: true})
	}}
}

// Schedules returns the store of schedule marks.
func (s *Store) Schedules() *ScheduleStore {
	return &ScheduleStore{View: s.view, Write: func(ctx context.Context, ns uint32, ops []layout.Op) error {
		return s.write(ctx, &Writes{ns: ns, entry: -1, ops: ops})
	}}
}

// rows calls visit for the rows under a prefix. It passes copies of the key and the value.
func (s *Store) rows(ctx context.Context, p []byte, visit func(key, value []byte) error) error {
	return layout.EachRow(ctx, s.view, p, visit)
}
