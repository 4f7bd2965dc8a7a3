package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
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

// addLetters gives a webhook so many letters, of seconds 1, 2, 3 and so on.
func addLetters(t *testing.T, s *Store, ns uint32, id string, n int) {
	t.Helper()
	sub := machine.Subscription{SubscriptionKey: machine.SubscriptionKey{Namespace: ns, Kind: machine.SubscriptionWebhook, ID: id}, Owner: "me"}
	if err := s.PutSubscription(context.Background(), sub, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		before := sub
		sub.Dead++
		if err := s.RecordDeadLetter(context.Background(), sub, &before, machine.DeadLetter{N: sub.Dead, At: int64(i + 1), Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
}

// deadLetterNumbers are the numbers of a webhook's letters.
func letterNumbers(t *testing.T, s *Store, ns uint32, id string) (first, n int) {
	t.Helper()
	got, err := s.ListDeadLetters(context.Background(), machine.SubscriptionKey{Namespace: ns, Kind: machine.SubscriptionWebhook, ID: id}, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range got {
		if i > 0 && l.N != got[i-1].N+1 {
			t.Errorf("%s: letter %d behind %d", id, l.N, got[i-1].N)
		}
	}
	if len(got) > 0 {
		first = int(got[0].N)
	}
	return first, len(got)
}

// TestTrimLetters: what is old goes, then the oldest of who has most; nothing of another
// namespace.
func TestTrimLetters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before int64
		most   int
		want   string
	}{
		"nothing is asked for":    {0, 0, "10 6 3"},
		"old ones":                {4, 0, "7 3 0"},
		"all are old":             {99, 0, "0 0 0"},
		"there is room":           {0, 19, "10 6 3"},
		"one too many":            {0, 18, "9 6 3"},
		"down to the second":      {0, 15, "6 6 3"},
		"both":                    {0, 13, "5 5 3"},
		"down to all":             {0, 9, "3 3 3"},
		"not the same for all":    {0, 7, "3 2 2"},
		"old, and then too many":  {4, 6, "3 3 0"},
		"as good as none is left": {0, 1, "1 0 0"},
	} {
		s := openTemp(t)
		addLetters(t, s, 0, "a", 10)
		addLetters(t, s, 0, "ab", 6)
		addLetters(t, s, 0, "b", 3)
		addLetters(t, s, 1, "a", 5)
		removed, err := s.TrimDeadLetters(context.Background(), 0, c.before, c.most)
		if err != nil {
			t.Fatal(err)
		}
		var ns [3]int
		for i, id := range []string{"a", "ab", "b"} {
			first, n := letterNumbers(t, s, 0, id)
			if ns[i] = n; n > 0 && first+n-1 != []int{10, 6, 3}[i] {
				t.Errorf("%s: of %s the newest are not left: %d from %d", name, id, n, first)
			}
		}
		if got := fmt.Sprint(ns[0], ns[1], ns[2]); got != c.want || removed != 19-ns[0]-ns[1]-ns[2] {
			t.Errorf("%s: left %s, want %s; removed %d", name, got, c.want, removed)
		}
		if _, n := letterNumbers(t, s, 1, "a"); n != 5 {
			t.Errorf("%s: another namespace has %d", name, n)
		}
	}
}

// TestTrimLettersAtRandom: as many are left as may be, of each no fewer than of who has
// most less one.
func TestTrimLettersAtRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 5))
	for range 20 {
		s, total, had := openTemp(t), 0, []int{}
		for i := range 5 {
			n := rnd.IntN(20)
			addLetters(t, s, 0, fmt.Sprint("w", i), n)
			total, had = total+n, append(had, n)
		}
		most := 1 + rnd.IntN(60)
		if _, err := s.TrimDeadLetters(context.Background(), 0, 0, most); err != nil {
			t.Fatal(err)
		}
		left, tallest := 0, 0
		for i := range had {
			_, n := letterNumbers(t, s, 0, fmt.Sprint("w", i))
			left, tallest = left+n, max(tallest, n)
		}
		if left != min(total, most) {
			t.Errorf("%d of %d left, at most %d", left, total, most)
		}
		for i := range had {
			if _, n := letterNumbers(t, s, 0, fmt.Sprint("w", i)); n < had[i] && n < tallest-1 {
				t.Errorf("had %v, at most %d: w%d has %d, another %d", had, most, i, n, tallest)
			}
		}
	}
}

// TestTrimLettersAfterACrash: a trim that is cut short has removed whole letters, oldest
// first, and the next one ends it.
func TestTrimLettersAfterACrash(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	s := openTemp(t, func(o *Options) {
		o.Hooks.BeforeCommit = func(Group) error {
			if left.Load() > 0 && left.Add(-1) == 0 {
				return errPower
			}
			return nil
		}
	})
	for i := range 3 {
		addLetters(t, s, 0, fmt.Sprint("w", i), 5)
	}
	left.Store(2)
	if _, err := s.TrimDeadLetters(context.Background(), 0, 4, 0); !errors.Is(err, machine.ErrIndeterminate) {
		t.Fatalf("cut short: %v", err)
	}
	again := openTemp(t, func(o *Options) { o.Dir = copyStore(t, s) })
	if n, err := again.TrimDeadLetters(context.Background(), 0, 4, 0); n != 6 || err != nil {
		t.Errorf("then %d, %v", n, err)
	}
	for i := range 3 {
		if first, n := letterNumbers(t, again, 0, fmt.Sprint("w", i)); first != 4 || n != 2 {
			t.Errorf("w%d: %d from %d", i, n, first)
		}
	}
}
