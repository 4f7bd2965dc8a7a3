package delivery_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/delivery/subscription"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// faultySubscriptions stores subscriptions. The next left calls of Advance fail with fault.
type faultySubscriptions struct {
	*subscription.Service
	left  atomic.Int64
	fault error
	asked atomic.Int64
}

func (s *faultySubscriptions) Advance(ctx context.Context, of *machine.Subscription, after uint64, index uint16) (machine.Subscription, error) {
	s.asked.Add(1)
	if s.left.Add(-1) >= 0 {
		return machine.Subscription{}, s.fault
	}
	return s.Service.Advance(ctx, of, after, index)
}

// shakyFeed is a feed of which the next left reads fail.
type shakyFeed struct {
	numbers
	left atomic.Int64
}

func (f *shakyFeed) Open(ctx context.Context, sub *machine.Subscription) (delivery.Events, error) {
	events, err := f.numbers.Open(ctx, sub)
	return &shakyEvents{Events: events, left: &f.left}, err
}

type shakyEvents struct {
	delivery.Events
	left *atomic.Int64
}

func (e *shakyEvents) Next(ctx context.Context) ([]machine.Delivery, error) {
	if e.left.Add(-1) >= 0 {
		return nil, errors.New("the disk does not answer")
	}
	return e.Events.Next(ctx)
}

// tally counts deliveries and faults.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[what]++
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

func (c *tally) Delivery(_ machine.SubscriptionKind, b delivery.AttemptOutcome) { c.add(string(b)) }
func (c *tally) DeliveryFault(_ machine.SubscriptionKind, d delivery.Activity)  { c.add(string(d)) }

// faultyOutbox is an outbox with one subscription. Its subscriptions and its feed fail on request.
type faultyOutbox struct {
	engine *faultySubscriptions
	feed   *shakyFeed
	counts *tally
	box    *delivery.Outbox
	key    machine.SubscriptionKey
	stop   func()
}

func newTroubled(t *testing.T, last uint64, to delivery.Poster) *faultyOutbox {
	t.Helper()
	engine, err := services.New(services.Config{Config: runtime.Config{Store: testkit.StoreFor(t), Clock: runtime.SystemClock{}, IDs: &testkit.IDs{}}})
	if err != nil {
		t.Fatal(err)
	}
	d := &faultyOutbox{
		engine: &faultySubscriptions{Service: engine.Subscriptions}, feed: &shakyFeed{numbers: numbers{last}}, counts: &tally{},
		key: machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "hook"},
	}
	d.box, err = delivery.New(delivery.Config{
		Delegations: engine.Delegations, Subscriptions: d.engine, Post: to, Pause: time.Microsecond, MaxPause: time.Millisecond, Counts: d.counts,
		Feeds: map[machine.SubscriptionKind]delivery.Feed{machine.SubscriptionWebhook: d.feed},
	})
	if err == nil {
		err = engine.Subscriptions.Subscribe(t.Context(), machine.Subscription{SubscriptionKey: d.key, Owner: "me", CreatedAt: 1}, many, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.stop = func() {}
	return d
}

// run serves what is stored until stop.
func (d *faultyOutbox) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	d.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(d.stop)
	go func() { defer close(ended); _ = d.box.Run(ctx) }()
}

func (d *faultyOutbox) await(t *testing.T, r *receiver) {
	t.Helper()
	d.run(t)
	select {
	case <-r.ended:
	case <-time.After(60 * time.Second):
		t.Fatalf("only %v arrived", r.got)
	}
}

// TestPlaceThatCannotBeStored: an event that arrived is not sent again, even if its position cannot be stored
// for a long time.
func TestPlaceThatCannotBeStored(t *testing.T) {
	t.Parallel()
	to := newReceiver("9", func(string, int) error { return nil })
	d := newTroubled(t, 9, to)
	d.engine.fault = errBusy
	d.engine.left.Store(300)
	d.await(t, to)
	d.stop()
	if want := []string{"1", "2", "3", "4", "6", "7", "8", "9"}; !slices.Equal(to.got, want) {
		t.Errorf("arrived %v, want %v", to.got, want)
	}
	if asked, faults := d.engine.asked.Load(), d.counts.of("store"); asked < 300 || faults < 100 {
		t.Errorf("asked %d times, %d faults counted", asked, faults)
	}
	if n := d.counts.of("delivered"); n != 8 {
		t.Errorf("%d deliveries counted, want 8", n)
	}
}

// crowd is a feed that returns many events at once.
type crowd struct{ last uint64 }

func (c crowd) Open(_ context.Context, sub *machine.Subscription) (delivery.Events, error) {
	return &crowdEvents{next: sub.After + 1, last: c.last}, nil
}

func (crowd) May(*machine.Subscription) error { return nil }

type crowdEvents struct{ next, last uint64 }

func (c *crowdEvents) Next(context.Context) ([]machine.Delivery, error) {
	if c.next > c.last {
		return nil, io.EOF
	}
	var all []machine.Delivery
	for ; c.next <= c.last; c.next++ {
		all = append(all, machine.Delivery{After: c.next, ID: strconv.FormatUint(c.next, 10)})
	}
	return all, nil
}

func (c *crowdEvents) Close() {}

// slowStore stores subscriptions. Its first Advance waits for let. Each Advance notes how many events have
// arrived whose position is not stored; most is the largest of these numbers.
type slowStore struct {
	*subscription.Service
	arrived, stored, most, commits atomic.Int64
	let                            chan struct{}
}

func (s *slowStore) Advance(ctx context.Context, of *machine.Subscription, after uint64, index uint16) (machine.Subscription, error) {
	<-s.let
	s.commits.Add(1)
	s.most.Store(max(s.most.Load(), s.arrived.Load()-s.stored.Load()))
	sub, err := s.Service.Advance(ctx, of, after, index)
	s.stored.Store(int64(after))
	return sub, err
}

// TestEventsDoNotWaitForTheDisk: while a position is being stored, the outbox sends the next events, but no
// more than it may send again after a crash. One commit stores the position behind many events.
func TestEventsDoNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	const last = 400
	engine, err := services.New(services.Config{Config: runtime.Config{Store: testkit.StoreFor(t), Clock: runtime.SystemClock{}, IDs: &testkit.IDs{}}})
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowStore{Service: engine.Subscriptions, let: make(chan struct{})}
	free := sync.OnceFunc(func() { close(slow.let) })
	t.Cleanup(free)
	to := newReceiver(strconv.Itoa(last), func(string, int) error {
		if slow.arrived.Add(1) == 33 {
			free()
		}
		return nil
	})
	box, err := delivery.New(delivery.Config{
		Delegations: engine.Delegations, Subscriptions: slow, Post: to, Feeds: map[machine.SubscriptionKind]delivery.Feed{machine.SubscriptionWebhook: crowd{last}},
	})
	if err != nil {
		t.Fatal(err)
	}
	key := machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "hook"}
	if err := engine.Subscriptions.Subscribe(t.Context(), machine.Subscription{SubscriptionKey: key, Owner: "me"}, many, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = box.Run(ctx) }()
	select {
	case <-to.ended:
	case <-time.After(60 * time.Second):
		t.Errorf("%d of %d events came while a place was being stored", slow.arrived.Load(), last)
	}
	cancel()
	<-ended
	if n := slow.most.Load(); n > 64 {
		t.Errorf("%d events had arrived and were not stored, want at most 64", n)
	}
	if n := slow.commits.Load(); n < last/64 || slow.stored.Load() != last {
		t.Errorf("%d commits, stored up to %d of %d", n, slow.stored.Load(), last)
	}
}

// TestReadFaultIsWaitedOut: the outbox repeats a read that fails, and counts each failure. It leaves out no
// event and sends none twice.
func TestReadFaultIsWaitedOut(t *testing.T) {
	t.Parallel()
	to := newReceiver("9", func(string, int) error { return nil })
	d := newTroubled(t, 9, to)
	d.feed.left.Store(50)
	d.await(t, to)
	d.stop()
	if want := []string{"1", "2", "3", "4", "6", "7", "8", "9"}; !slices.Equal(to.got, want) {
		t.Errorf("arrived %v, want %v", to.got, want)
	}
	if n := d.counts.of("read"); n != 50 {
		t.Errorf("%d faults counted, want 50", n)
	}
}

// TestAnswerThatComesWithTheStop: the process stops right after the receiver has answered an event. The next
// process does not send this event again.
func TestAnswerThatComesWithTheStop(t *testing.T) {
	t.Parallel()
	to := newReceiver("3", func(string, int) error { return nil })
	d := newTroubled(t, 1000, to)
	// The receiver reports the event before the outbox has read its answer.
	d.await(t, to)
	d.stop()
	sub, err := d.engine.Subscription(t.Context(), d.key)
	if err != nil {
		t.Fatal(err)
	}
	if last, err := strconv.ParseUint(to.got[len(to.got)-1], 10, 64); err != nil || sub.After < last {
		t.Fatalf("it stands at %d, arrived %v, %v", sub.After, to.got, err)
	}
}

// heldPoster holds each request until its context ends. It sends to waits when a request begins. posts is the
// number of requests in progress.
type heldPoster struct {
	waits chan struct{}
	posts atomic.Int64
}

func (h *heldPoster) Post(ctx context.Context, _ *machine.Subscription, _ machine.Delivery) error {
	h.posts.Add(1)
	select {
	case h.waits <- struct{}{}:
	default:
	}
	<-ctx.Done()
	h.posts.Add(-1)
	return ctx.Err()
}

// TestStopEndsThePost: when Stop returns, no request is in progress. When Serve returns, no request from
// before Serve is in progress.
func TestStopEndsThePost(t *testing.T) {
	t.Parallel()
	to := &heldPoster{waits: make(chan struct{}, 1)}
	d := newTroubled(t, 9, to)
	d.run(t)
	for range 20 {
		<-to.waits
		d.box.Serve(d.key)
		if n := to.posts.Load(); n > 1 {
			t.Fatalf("%d requests are under way after a change", n)
		}
	}
	<-to.waits
	if err := d.engine.Unsubscribe(t.Context(), d.key); err != nil {
		t.Fatal(err)
	}
	d.box.Stop(d.key)
	if n := to.posts.Load(); n != 0 {
		t.Fatalf("%d requests are under way after the end", n)
	}
}
