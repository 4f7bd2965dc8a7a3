package delivery_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// many is a limit that no test reaches.
const many = 1 << 20

// numbers is a feed of the events 1 to last.
type numbers struct{ last uint64 }

func (n numbers) Open(_ context.Context, sub *machine.Subscription) (delivery.Events, error) {
	return &counter{next: sub.After + 1, last: n.last}, nil
}

func (numbers) May(*machine.Subscription) error { return nil }

type counter struct{ next, last uint64 }

func (c *counter) Next(context.Context) ([]machine.Delivery, error) {
	if c.next > c.last {
		return nil, io.EOF
	}
	n := c.next
	c.next++
	if n%5 == 0 {
		return []machine.Delivery{{After: n}}, nil
	}
	return []machine.Delivery{{After: n, ID: fmt.Sprint(n), Type: "text/plain", Body: []byte(fmt.Sprint(n))}}, nil
}

func (c *counter) Close() {}

// receiver takes deliveries. answer decides whether each one fails.
type receiver struct {
	mu     sync.Mutex
	got    []string
	answer func(id string, try int) error
	tries  map[string]int
	ended  chan struct{}
	last   string
}

func newReceiver(last string, answer func(id string, try int) error) *receiver {
	return &receiver{answer: answer, tries: make(map[string]int), ended: make(chan struct{}), last: last}
}

func (r *receiver) Post(_ context.Context, _ *machine.Subscription, event machine.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries[event.ID]++
	err := r.answer(event.ID, r.tries[event.ID])
	if err == nil {
		r.got = append(r.got, event.ID)
	}
	if event.ID == r.last && err == nil {
		close(r.ended)
	}
	return err
}

var errBusy = errors.New("busy")

// post is an engine, an outbox with a feed of numbers, and a subscription to it.
type post struct {
	t      *testing.T
	store  *testkit.Store
	engine *services.Runtime
	box    *delivery.Outbox
	stop   func()
	key    machine.SubscriptionKey
}

func newPost(t *testing.T, store *testkit.Store, last uint64, to delivery.Poster) *post {
	t.Helper()
	p := &post{t: t, store: store, key: machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "hook"}}
	var err error
	p.engine, err = services.New(services.Config{Config: runtime.Config{Store: store, Clock: runtime.SystemClock{}, IDs: &testkit.IDs{}}})
	if err != nil {
		t.Fatal(err)
	}
	p.box, err = delivery.New(delivery.Config{
		Delegations: p.engine.Delegations, Subscriptions: p.engine.Subscriptions, Directory: newAgent(doneOutcome), Post: to, Tries: 3, Pause: time.Microsecond, MaxRetry: time.Millisecond,
		Feeds: map[machine.SubscriptionKind]delivery.Feed{machine.SubscriptionWebhook: numbers{last}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { _ = p.box.Run(ctx) })
	p.stop = sync.OnceFunc(func() { cancel(); loops.Wait() })
	t.Cleanup(p.stop)
	return p
}

func (p *post) await(r *receiver) {
	p.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(60 * time.Second):
		p.t.Fatalf("only %v arrived", r.got)
	}
}

// TestDeliveries: the outbox delivers each event in order. An event that always fails becomes a dead letter
// and does not delay the events after it. After a restart the outbox continues where it was.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := testkit.StoreFor(t)
	first := newReceiver("6", func(id string, try int) error {
		if id == "3" || id == "2" && try < 3 {
			return errBusy
		}
		return nil
	})
	p := newPost(t, store, 6, first)
	if err := p.engine.Subscriptions.Subscribe(ctx, machine.Subscription{SubscriptionKey: p.key, Owner: "me", URL: "https://x"}, many, nil); err != nil {
		t.Fatal(err)
	}
	p.box.Serve(p.key)
	p.await(first)
	p.stop()
	if want := []string{"1", "2", "4", "6"}; !slices.Equal(first.got, want) {
		t.Fatalf("arrived %v, want %v", first.got, want)
	}
	letters, err := p.engine.Subscriptions.ListDeadLetters(ctx, p.key, 0, 10)
	if err != nil || len(letters) != 1 || letters[0].Event != "3" || string(letters[0].Body) != "3" || letters[0].Error != "busy" {
		t.Fatalf("letters %+v, %v", letters, err)
	}
	second := newReceiver("8", func(string, int) error { return nil })
	q := newPost(t, store, 8, second)
	// The last stored change may be that the feed had ended.
	sub, err := q.engine.Subscriptions.Subscription(ctx, q.key)
	if err != nil || sub.After < 4 {
		t.Fatalf("stored %+v, %v", sub, err)
	}
	sub.Done = false
	if err := q.engine.Subscriptions.Subscribe(ctx, *sub, many, nil); err != nil {
		t.Fatal(err)
	}
	q.box.Serve(q.key)
	q.await(second)
	if err := q.box.Resend(ctx, q.key, 1); err != nil {
		t.Fatal(err)
	}
	q.stop()
	if got := second.got[len(second.got)-1]; got != "3" {
		t.Fatalf("resent %v", second.got)
	}
	if letters, err := q.engine.Subscriptions.ListDeadLetters(ctx, q.key, 0, 10); err != nil || len(letters) != 0 {
		t.Fatalf("letters %v, %v", letters, err)
	}
	if err := q.box.Resend(ctx, q.key, 1); err == nil {
		t.Fatal("a letter that is gone was sent")
	}
	if slices.Contains(second.got[:len(second.got)-1], "4") {
		t.Fatalf("what had arrived before the restart came again: %v", second.got)
	}
}

// TestPost: what the request to a receiver contains, and which answers mean that the receiver took the event.
func TestPost(t *testing.T) {
	t.Parallel()
	var seen http.Header
	var body string
	answer := http.StatusNoContent
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		seen, body = r.Header, string(raw)
		if answer == http.StatusFound {
			w.Header().Set("Location", "http://10.0.0.1/")
		}
		w.WriteHeader(answer)
	}))
	defer s.Close()
	ctx := context.Background()
	sub := &machine.Subscription{URL: s.URL, Token: "tok", Scheme: "Bearer", Credentials: "cred", Secret: []byte("secret")}
	event := machine.Delivery{ID: "e1", Type: "application/a2a+json", Body: []byte("{}")}
	open := delivery.NewHTTPPoster([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	if err := open.Post(ctx, sub, event); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"Authorization": "Bearer cred", "A2a-Notification-Token": "tok", "X-A2a-Notification-Token": "tok",
		"Content-Type": "application/a2a+json", "Webhook-Id": "e1",
	} {
		if seen.Get(key) != want {
			t.Errorf("%s is %q, want %q", key, seen.Get(key), want)
		}
	}
	if body != "{}" || !strings.HasPrefix(seen.Get("Webhook-Signature"), "v1,") || seen.Get("Webhook-Timestamp") == "" {
		t.Errorf("body %q, headers %v", body, seen)
	}
	for _, code := range []int{http.StatusFound, http.StatusInternalServerError, http.StatusGone} {
		answer = code
		if err := open.Post(ctx, sub, event); err == nil {
			t.Errorf("%d counts as taken", code)
		}
	}
	answer = http.StatusOK
	err := delivery.NewHTTPPoster(nil).Post(ctx, sub, event)
	if err == nil || !strings.Contains(err.Error(), "no public address") {
		t.Errorf("a private address was dialled: %v", err)
	}
	named := *sub
	named.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	err = delivery.NewHTTPPoster(nil).Post(ctx, &named, event)
	if err == nil || !strings.Contains(err.Error(), "no public address") {
		t.Errorf("a private address was dialled by its name: %v", err)
	}
}

// TestSignature: the example of Standard Webhooks, whose time is of 2021.
func TestSignature(t *testing.T) {
	t.Parallel()
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	delivery.Sign(header, key, machine.Delivery{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Body: []byte(`{"test": 2432232314}`)}, time.Unix(1614265330, 0))
	if got := header.Get("Webhook-Signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" || header.Get("Webhook-Timestamp") != "1614265330" {
		t.Errorf("headers %v", header)
	}
}

// slowFor holds up the deliveries of one subscription.
type slowFor struct {
	id   string
	free chan struct{}
	// slow receives the deliveries of that subscription, fast those of all others.
	slow, fast *receiver
}

func (s *slowFor) Post(ctx context.Context, sub *machine.Subscription, event machine.Delivery) error {
	if sub.ID != s.id {
		return s.fast.Post(ctx, sub, event)
	}
	select {
	case <-s.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.slow.Post(ctx, sub, event)
}

// TestSlowReceiver: a receiver that does not answer delays only its own events. Once it answers, it gets them
// in order.
func TestSlowReceiver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	taken := func(string, int) error { return nil }
	to := &slowFor{id: "slow", free: make(chan struct{}), slow: newReceiver("9", taken), fast: newReceiver("9", taken)}
	p := newPost(t, testkit.StoreFor(t), 9, to)
	for _, id := range []string{"slow", "fast"} {
		p.key.ID = id
		if err := p.engine.Subscriptions.Subscribe(ctx, machine.Subscription{SubscriptionKey: p.key, Owner: "me", URL: "https://x"}, many, nil); err != nil {
			t.Fatal(err)
		}
		p.box.Serve(p.key)
	}
	p.await(to.fast)
	to.slow.mu.Lock()
	if len(to.slow.got) != 0 {
		t.Errorf("the slow one got %v", to.slow.got)
	}
	to.slow.mu.Unlock()
	close(to.free)
	p.await(to.slow)
	p.stop()
	for _, r := range []*receiver{to.slow, to.fast} {
		if want := []string{"1", "2", "3", "4", "6", "7", "8", "9"}; !slices.Equal(r.got, want) {
			t.Errorf("arrived %v, want %v", r.got, want)
		}
	}
}

// seen reports on underWay that a delivery has begun. Then it delivers as slowFor does.
type seen struct {
	*slowFor
	underWay chan struct{}
}

func (h *seen) Post(ctx context.Context, sub *machine.Subscription, event machine.Delivery) error {
	select {
	case h.underWay <- struct{}{}:
	default:
	}
	return h.slowFor.Post(ctx, sub, event)
}

// TestStopServesWhatWasMadeMeanwhile: a subscription is removed, and another one is made under the same key.
// The outbox serves the new one, although Stop for the removed one comes last.
func TestStopServesWhatWasMadeMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	slow := &slowFor{id: "hook", free: make(chan struct{}), slow: newReceiver("4", func(string, int) error { return nil })}
	to := &seen{slowFor: slow, underWay: make(chan struct{}, 1)}
	store := testkit.StoreFor(t)
	p := newPost(t, store, 4, to)
	if err := p.engine.Subscriptions.Subscribe(ctx, machine.Subscription{SubscriptionKey: p.key, Owner: "before", URL: "https://x"}, many, nil); err != nil {
		t.Fatal(err)
	}
	p.box.Serve(p.key)
	<-to.underWay
	if err := p.engine.Subscriptions.Unsubscribe(ctx, p.key); err != nil {
		t.Fatal(err)
	}
	if err := p.engine.Subscriptions.Subscribe(ctx, machine.Subscription{SubscriptionKey: p.key, Owner: "after", URL: "https://y"}, many, nil); err != nil {
		t.Fatal(err)
	}
	p.box.Serve(p.key)
	<-to.underWay
	p.box.Stop(p.key)
	close(slow.free)
	p.await(slow.slow)
	p.stop()
}
