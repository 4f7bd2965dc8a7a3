package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery/subscription"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

func reasonOf(err error) string {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return refusal.Reason
	}
	return ""
}

// ending is a service that removes expired consumers, with its clock, its store, and what the service passed
// to OnExpired.
type ending struct {
	*subscription.Service
	t     *testing.T
	clock *testkit.Clock
	store *testkit.Store
	told  string
}

func newEnding(t *testing.T, ends subscription.RetentionConfig) *ending {
	t.Helper()
	e := &ending{t: t, clock: testkit.NewClock(), store: testkit.StoreFor(t)}
	e.build(ends)
	return e
}

// build makes the service over what is stored, as after a start.
func (e *ending) build(ends subscription.RetentionConfig) {
	e.t.Helper()
	ends.OnExpired = func(ns uint32, what string, n int) { e.told += fmt.Sprint(ns, what, n) }
	rooms, err := services.New(services.Config{Config: runtime.Config{Store: e.store, Clock: e.clock, IDs: &testkit.IDs{}}, Ends: ends})
	if err != nil {
		e.t.Fatal(err)
	}
	e.Service = rooms.Subscriptions
}

// read opens and ends the watch of a consumer. It returns the error if the consumer may not read.
func (e *ending) read(name string) error {
	e.t.Helper()
	at, known, err := e.Resume(e.t.Context(), 0, name, "anonymous")
	if err != nil {
		return err
	}
	reading, err := e.Enter(e.t.Context(), 0, name, "anonymous", at, known)
	if err == nil {
		reading.Close()
	}
	return err
}

func (e *ending) pass(d time.Duration) {
	e.t.Helper()
	e.clock.Advance(d)
	if err := e.Forget(context.Background()); err != nil {
		e.t.Fatal(err)
	}
}

func (e *ending) names() (names string) {
	e.t.Helper()
	all, err := e.ListConsumers(e.t.Context(), runtime.Call{Principal: runtime.Anonymous()})
	if err != nil {
		e.t.Fatal(err)
	}
	for _, c := range all {
		names += c.Name
	}
	return names
}

// TestConsumersAreForgotten: a consumer that does not read expires after the retention time and not earlier. A
// consumer that reads or is connected does not expire. An expired consumer gets CONSUMER_EXPIRED when it reads
// or acknowledges. After another retention time its name is free again.
func TestConsumersAreForgotten(t *testing.T) {
	t.Parallel()
	const after = 24 * time.Hour
	e := newEnding(t, subscription.RetentionConfig{ConsumerRetention: after})
	for _, name := range []string{"a", "b", "c"} {
		if err := e.read(name); err != nil {
			t.Fatal(err)
		}
	}
	at, known, err := e.Resume(t.Context(), 0, "c", "anonymous")
	if err != nil {
		t.Fatal(err)
	}
	connected, err := e.Enter(t.Context(), 0, "c", "anonymous", at, known)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		e.pass(after / 10)
		if err := e.read("b"); err != nil {
			t.Fatalf("one that reads: %v", err)
		}
		if e.names() == "bc" {
			break
		}
	}
	if e.names() != "bc" || e.told != "0consumer1" {
		t.Fatalf("left %q, told %q", e.names(), e.told)
	}
	// A start loses the read times that were not stored. The stored ones are out of date by at most a fraction
	// of the retention time.
	connected.Close()
	e.build(subscription.RetentionConfig{ConsumerRetention: after})
	e.pass(after / 2)
	if e.names() != "bc" {
		t.Errorf("after a start: %q", e.names())
	}
	if err := e.read("a"); reasonOf(err) != "CONSUMER_EXPIRED" {
		t.Errorf("who comes back: %v", err)
	}
	if err := e.AckConsumer(t.Context(), subscription.ConsumerRef{Call: runtime.Call{Principal: runtime.Anonymous()}, Name: "a"}, at.String()); reasonOf(err) != "CONSUMER_EXPIRED" {
		t.Errorf("who acknowledges: %v", err)
	}
	e.pass(after)
	if err := e.read("a"); err != nil {
		t.Errorf("forgotten, it is not a new one: %v", err)
	}
}

// TestExpiredConsumerIsDeleted: the owner of an expired consumer can delete it and begin again at once.
func TestExpiredConsumerIsDeleted(t *testing.T) {
	t.Parallel()
	e := newEnding(t, subscription.RetentionConfig{ConsumerRetention: time.Hour})
	if err := e.read("a"); err != nil {
		t.Fatal(err)
	}
	e.pass(time.Hour)
	if err := e.read("a"); reasonOf(err) != "CONSUMER_EXPIRED" {
		t.Fatalf("who comes back: %v", err)
	}
	ref := subscription.ConsumerRef{Call: runtime.Call{Principal: runtime.Anonymous()}, Name: "a"}
	if err := e.DeleteConsumer(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if err := e.read("a"); err != nil || e.names() != "a" {
		t.Errorf("anew: %v, %q", err, e.names())
	}
}

// TestConsumersOfBeforeAreSeenFirst: a consumer of an older program has no stored time. Its retention time
// begins when the service first looks at it. Without a retention time no consumer expires.
func TestConsumersOfBeforeAreSeenFirst(t *testing.T) {
	t.Parallel()
	e := newEnding(t, subscription.RetentionConfig{})
	old := machine.Subscription{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionConsumer, ID: "old"}, Owner: "anonymous", CreatedAt: 1}
	if err := e.store.PutSubscription(t.Context(), old, nil); err != nil {
		t.Fatal(err)
	}
	e.pass(1000 * time.Hour)
	e.build(subscription.RetentionConfig{ConsumerRetention: 2 * time.Hour})
	for _, want := range []string{"old", "old", ""} {
		e.pass(time.Hour)
		if e.names() != want {
			t.Errorf("left %q, want %q", e.names(), want)
		}
	}
}
