package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/delivery/subscription"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

const hookSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

func newRoom(t *testing.T, store runtime.Store) *subscription.Service {
	t.Helper()
	rooms, err := services.New(services.Config{Config: runtime.Config{Store: store, Clock: runtime.SystemClock{}, IDs: &testkit.IDs{}}})
	if err != nil {
		t.Fatal(err)
	}
	return rooms.Subscriptions
}

func hookRequest(id, url string) subscription.WebhookRequest {
	return subscription.WebhookRequest{Call: runtime.Call{Principal: runtime.Anonymous()}, ID: id, URL: url, Secret: hookSecret, FromBeginning: true}
}

// TestAdvanceKeepsChanges: the outbox changes the position of a webhook while the owner changes its settings.
// Neither change overwrites the other. The position never goes back. Advance does not change a webhook that
// was deleted or that was made again.
func TestAdvanceKeepsChanges(t *testing.T) {
	t.Parallel()
	ctx, e := t.Context(), newRoom(t, testkit.StoreFor(t))
	first, created, err := e.PutWebhook(ctx, hookRequest("w", "https://a.example"))
	if err != nil || !created {
		t.Fatalf("made %v, %v", created, err)
	}
	if _, created, err := e.PutWebhook(ctx, hookRequest("w", "https://b.example")); err != nil || created {
		t.Fatalf("made again %v, %v", created, err)
	}
	now, err := e.Advance(ctx, &first, 7, 2)
	if err != nil || now.URL != "https://b.example" || now.After != 7 || now.Index != 2 {
		t.Fatalf("advanced %+v, %v", now, err)
	}
	if now, err = e.Advance(ctx, &first, 7, 1); err != nil || now.After != 7 || now.Index != 2 {
		t.Fatalf("it went back: %+v, %v", now, err)
	}
	tried := first
	tried.Attempts = 3
	if err := e.NoteTry(ctx, tried, &first, nil); !errors.Is(err, machine.ErrSubscriptionChanged) {
		t.Fatalf("a failed try of before was stored: %v", err)
	}
	if _, err := e.DeleteWebhook(ctx, runtime.Call{Principal: runtime.Anonymous()}, "w"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := e.Advance(ctx, &first, 9, 0); !errors.Is(err, machine.ErrSubscriptionChanged) {
			t.Fatalf("one that is gone came back: %v", err)
		}
		if _, _, err := e.PutWebhook(ctx, hookRequest("w", "https://c.example")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWebhooksAreCountedExactly: concurrent callers make exactly as many webhooks as the limit allows.
func TestWebhooksAreCountedExactly(t *testing.T) {
	t.Parallel()
	e := newRoom(t, testkit.StoreFor(t))
	var puts sync.WaitGroup
	var made, refused atomic.Int64
	for n := range 120 {
		puts.Go(func() {
			_, _, err := e.PutWebhook(t.Context(), hookRequest(fmt.Sprint("w", n), "https://a.example"))
			var refusal *machine.Error
			switch {
			case err == nil:
				made.Add(1)
			case errors.As(err, &refusal) && refusal.Reason == "MAX_WEBHOOKS":
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	puts.Wait()
	if made.Load() != 100 || refused.Load() != 20 {
		t.Errorf("%d made and %d refused, want 100 and 20", made.Load(), refused.Load())
	}
}

// stubborn is a store in which every change of a subscription conflicts with an earlier one.
type stubborn struct {
	*testkit.Store
	attempts atomic.Int64
}

func (s *stubborn) PutSubscription(context.Context, machine.Subscription, *machine.Subscription) error {
	s.attempts.Add(1)
	return machine.ErrSubscriptionChanged
}

// TestChangesAreNotTriedForEver: the service tries a change that always conflicts a few times. Then it returns
// the error SUBSCRIPTION_CONTENDED.
func TestChangesAreNotTriedForEver(t *testing.T) {
	t.Parallel()
	s := &stubborn{Store: testkit.StoreFor(t)}
	_, _, err := newRoom(t, s).PutWebhook(t.Context(), hookRequest("w", "https://a.example"))
	var refusal *machine.Error
	if !errors.As(err, &refusal) || refusal.Reason != "SUBSCRIPTION_CONTENDED" || refusal.Code != machine.CodeAborted || !strings.Contains(refusal.Message, "try again") {
		t.Fatalf("%v", err)
	}
	if n := s.attempts.Load(); n != 8 {
		t.Errorf("tried %d times, want 8", n)
	}
}

// ends is an engine with two namespaces, and the ends of their records.
type ends map[uint32]uint64

func (e ends) Admit(runtime.Call, runtime.Scopes) (uint32, error) { return 0, nil }
func (e ends) NamespaceNumbers() []uint32                         { return []uint32{0, 1} }
func (e ends) Tail(_ context.Context, ns uint32) (uint64, error)  { return e[ns], nil }
func (e ends) Epoch() [16]byte                                    { return [16]byte{} }

// TestLags: the lag of a kind is that of its slowest subscription in any namespace. An expired consumer does not count.
func TestLags(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), testkit.StoreFor(t)
	service, err := subscription.New(subscription.Config{
		Engine: ends{0: 10, 1: 30}, Journal: ends{0: 10, 1: 30}, Store: store, Clock: runtime.SystemClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []machine.Subscription{
		{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionConsumer, ID: "near"}, After: 10},
		{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionConsumer, ID: "far"}, After: 3},
		{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionConsumer, ID: "expired"}, Done: true},
		{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "w"}, After: 9},
		{SubscriptionKey: machine.SubscriptionKey{Namespace: 1, Kind: machine.SubscriptionWebhook, ID: "w"}, After: 4},
	} {
		sub.Owner = "me"
		if err := store.PutSubscription(ctx, sub, nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err := service.Lags(ctx)
	if err != nil || got[machine.SubscriptionConsumer] != 7 || got[machine.SubscriptionWebhook] != 26 {
		t.Errorf("lags %v, %v", got, err)
	}
}
