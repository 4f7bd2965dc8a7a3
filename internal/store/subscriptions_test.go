package store

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestSubscriptions: a subscription changes only from what it was read as, its
// letters go with it, and kinds, runs and namespaces are kept apart.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := openOn(t, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	key := machine.SubscriptionKey{Kind: machine.SubscriptionPush, Run: "run", ID: "a"}
	first := machine.Subscription{SubscriptionKey: key, Owner: "me", URL: "https://x", After: 3}
	for _, sub := range []machine.Subscription{
		first,
		{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionPush, Run: "runner", ID: "a"}},
		{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionConsumer, ID: "a"}},
	} {
		if err := s.PutSubscription(ctx, sub, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PutSubscription(ctx, first, nil); !errors.Is(err, machine.ErrSubscriptionChanged) {
		t.Fatalf("a second one was made: %v", err)
	}
	next := first
	next.After, next.Dead = 4, 1
	letter := machine.DeadLetter{N: 1, Event: "e", Body: []byte("b")}
	if err := s.RecordDeadLetter(ctx, next, &first, letter); err != nil {
		t.Fatal(err)
	}
	if err := s.PutSubscription(ctx, next, &first); !errors.Is(err, machine.ErrSubscriptionChanged) {
		t.Fatalf("a stale change was stored: %v", err)
	}
	if got, err := s.Subscription(ctx, key); err != nil || got == nil || got.After != 4 || got.Run != "run" || got.URL != "https://x" {
		t.Fatalf("read %+v, %v", got, err)
	}
	if all, err := s.Subscriptions(ctx, 0, machine.SubscriptionPush, "run"); err != nil || len(all) != 1 || all[0].ID != "a" {
		t.Fatalf("of the run %+v, %v", all, err)
	}
	if all, err := s.Subscriptions(ctx, 0, machine.SubscriptionPush, ""); err != nil || len(all) != 2 {
		t.Fatalf("of the kind %+v, %v", all, err)
	}
	if letters, err := s.ListDeadLetters(ctx, key, 0, 5); err != nil || len(letters) != 1 || letters[0].N != 1 || string(letters[0].Body) != "b" {
		t.Fatalf("letters %+v, %v", letters, err)
	}
	if letters, err := s.ListDeadLetters(ctx, key, 1, 5); err != nil || letters != nil {
		t.Fatalf("letters behind the last %+v, %v", letters, err)
	}
	if err := s.DropSubscription(ctx, key); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Subscription(ctx, key); err != nil || got != nil {
		t.Fatalf("dropped, but %+v, %v", got, err)
	}
	if letters, err := s.ListDeadLetters(ctx, key, 0, 5); err != nil || letters != nil {
		t.Fatalf("dropped, but %+v, %v", letters, err)
	}
}

// TestSubscriptionOfAnImportedRun: a run that was deleted and imported again takes
// subscriptions; one that is gone does not.
func TestSubscriptionOfAnImportedRun(t *testing.T) {
	t.Parallel()
	w, ctx := travelWorld(t), context.Background()
	w.live(runID(20))
	w.end(runID(20))
	file := w.export(runID(20))
	sub := machine.Subscription{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionPush, Run: runID(20), ID: "a"}}
	for _, there := range []bool{false, true, false} {
		if there {
			if _, _, err := w.importInto(w.store, 0, file); err != nil {
				t.Fatal(err)
			}
		} else {
			w.delete(runID(20))
		}
		err := w.store.PutSubscription(ctx, sub, nil)
		if there && err != nil || !there && !errors.Is(err, machine.ErrSubscriptionChanged) {
			t.Errorf("there %t: %v", there, err)
		}
	}
	if left, err := w.store.Subscriptions(ctx, 0, machine.SubscriptionPush, ""); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
