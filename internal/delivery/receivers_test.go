package delivery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/test/testkit"
)

// endlessFeed is a feed that has one event and then waits.
type endlessFeed struct{}

func (endlessFeed) May(*machine.Subscription) error { return nil }

func (endlessFeed) Open(_ context.Context, sub *machine.Subscription) (delivery.Events, error) {
	return &waiter{notified: sub.After > 0}, nil
}

type waiter struct{ notified bool }

func (w *waiter) Next(ctx context.Context) ([]machine.Delivery, error) {
	if w.notified {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w.notified = true
	return []machine.Delivery{{After: 1, ID: "1"}}, nil
}

func (w *waiter) Close() {}

// attemptedPosts receives each delivery when it is tried: "id of subscription at url".
type attemptedPosts chan string

func (p attemptedPosts) Post(ctx context.Context, sub *machine.Subscription, event machine.Delivery) error {
	if sub.URL == "never" {
		<-ctx.Done()
		return ctx.Err()
	}
	p <- fmt.Sprintf("%s of %s at %s", event.ID, sub.ID, sub.URL)
	if sub.URL == "fails" {
		return errBusy
	}
	return nil
}

func (p attemptedPosts) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		select {
		case got := <-p:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("%q was not tried", want)
		}
	}
}

// TestReceiversAreAlone: a receiver that never answers and one that always fails do not delay the others. The
// outbox tries a changed subscription at once, and serves one that is made again.
func TestReceiversAreAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tried := make(attemptedPosts, 1000)
	p := newPost(t, testkit.StoreFor(t), 0, tried)
	p.stop()
	box, err := delivery.New(delivery.Config{
		Delegations: p.engine.Delegations, Subscriptions: p.engine.Subscriptions, Post: tried, Tries: 1 << 20, Pause: time.Hour, MaxRetry: time.Hour,
		Feeds: map[machine.SubscriptionKind]delivery.Feed{machine.SubscriptionWebhook: endlessFeed{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	key := func(id string) machine.SubscriptionKey {
		return machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: id}
	}
	put := func(id, url string) {
		t.Helper()
		if err := p.engine.Subscriptions.Subscribe(ctx, machine.Subscription{SubscriptionKey: key(id), URL: url}, many, nil); err != nil {
			t.Fatal(err)
		}
		box.Serve(key(id))
	}
	put("slow", "never")
	put("failing", "fails")
	go func() { ended <- box.Run(running) }()
	defer func() { stop(); <-ended }()
	tried.await(t, "1 of failing at fails")
	put("good", "a")
	tried.await(t, "1 of good at a")
	put("failing", "b")
	tried.await(t, "1 of failing at b")
	put("slow", "c")
	tried.await(t, "1 of slow at c")
	for i := range 20 {
		if err := p.engine.Subscriptions.Unsubscribe(ctx, key("good")); err != nil {
			t.Fatal(err)
		}
		box.Stop(key("good"))
		url := fmt.Sprint("again ", i)
		put("good", url)
		tried.await(t, "1 of good at "+url)
	}
}

// TestARetryOutlivesASetClock: the time of the next try was stored before the clock was set back. The outbox
// still waits no longer than the longest pause.
func TestARetryOutlivesASetClock(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tried := make(attemptedPosts, 1000)
	p := newPost(t, testkit.StoreFor(t), 0, tried)
	p.stop()
	box, err := delivery.New(delivery.Config{
		Delegations: p.engine.Delegations, Subscriptions: p.engine.Subscriptions, Post: tried, Tries: 1 << 20, Pause: time.Millisecond, MaxRetry: 20 * time.Millisecond,
		Feeds: map[machine.SubscriptionKind]delivery.Feed{machine.SubscriptionWebhook: endlessFeed{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	key := machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "late"}
	if err := p.engine.Subscriptions.Subscribe(ctx, machine.Subscription{
		SubscriptionKey: key, URL: "a", Attempts: 1, NextAt: time.Now().Add(time.Hour).UnixNano(),
	}, many, nil); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- box.Run(ctx) }()
	defer func() { stop(); <-ended }()
	tried.await(t, "1 of late at a")
}
