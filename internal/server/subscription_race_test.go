package server

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// raceRounds returns how often a race is run: few, or the number in PAWL_ROUNDS.
func raceRounds(t *testing.T, few int) int {
	t.Helper()
	if text := os.Getenv("PAWL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return few
}

// letterBox answers every request, and counts how often each event arrived.
type letterBox struct {
	*httptest.Server
	mu     sync.Mutex
	calls  int
	events map[string]int
	// arrived holds a token if an event arrived since the last look.
	arrived chan struct{}
}

func newLetterBox(t *testing.T) *letterBox {
	t.Helper()
	b := &letterBox{events: make(map[string]int), arrived: make(chan struct{}, 1)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls++
		b.events[r.Header.Get("Webhook-Id")]++
		select {
		case b.arrived <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *letterBox) counts() (calls, events int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls, len(b.events)
}

// await waits until so many different events have arrived.
func (b *letterBox) await(ctx context.Context, t *testing.T, events int) {
	t.Helper()
	for {
		calls, have := b.counts()
		if have >= events {
			return
		}
		select {
		case <-b.arrived:
		case <-ctx.Done():
			t.Fatalf("%d of %d events in %d calls", have, events, calls)
		}
	}
}

// underWay is the one request that a change interrupts. Its receiver may handle it later.
const underWay = 1

// raceRig is a sidecar with some records, and its clients.
type raceRig struct {
	t       *testing.T
	ctx     context.Context
	sidecar *runningSidecar
	runs    pawlv1.RunServiceClient
	hooks   pawlv1.DeliveryServiceClient
	records int
}

func newRaceRig(t *testing.T, records int) *raceRig {
	t.Helper()
	c := settings(t)
	c.A2A, c.PushAllow = false, []string{"127.0.0.1"}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	r := &raceRig{t: t, ctx: ctx, sidecar: serveToEnd(t, c), records: records}
	conn := dial(t, r.sidecar.ready.GRPC)
	r.runs, r.hooks = pawlv1.NewRunServiceClient(conn), pawlv1.NewDeliveryServiceClient(conn)
	for range records {
		start(t, r.runs)
	}
	return r
}

func (r *raceRig) put(id, url string) (*pawlv1.PutWebhookResponse, error) {
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	return r.hooks.PutWebhook(ctx, &pawlv1.PutWebhookRequest{WebhookId: id, Url: url, Secret: hookSecret(), FromBeginning: true})
}

func (r *raceRig) mustPut(id, url string) {
	r.t.Helper()
	if _, err := r.put(id, url); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raceRig) drop(id string) {
	r.t.Helper()
	if _, err := r.hooks.DeleteWebhook(r.ctx, &pawlv1.DeleteWebhookRequest{WebhookId: id}); err != nil {
		r.t.Fatal(err)
	}
}

// TestDeletedWebhookIsGone: a webhook that is deleted while it is served never comes back. Its
// receiver gets nothing after the answer.
func TestDeletedWebhookIsGone(t *testing.T) {
	t.Parallel()
	r := newRaceRig(t, 40)
	for i := range raceRounds(t, 3) {
		deleted, probe := newLetterBox(t), newLetterBox(t)
		r.mustPut("gone", deleted.URL)
		deleted.await(r.ctx, t, 1+rand.IntN(20))
		r.drop("gone")
		calls, _ := deleted.counts()
		// Another receiver gets everything meanwhile.
		r.mustPut("probe", probe.URL)
		probe.await(r.ctx, t, r.records)
		r.drop("probe")
		if now, _ := deleted.counts(); now > calls+underWay {
			t.Errorf("round %d: %d posts after the webhook was deleted", i, now-calls)
		}
		left, err := r.hooks.ListWebhooks(r.ctx, &pawlv1.ListWebhooksRequest{})
		if err != nil || len(left.GetWebhooks()) != 0 {
			t.Fatalf("round %d: deleted, but %v, %v", i, left, err)
		}
	}
}

// TestChangedWebhookIsChanged: a webhook whose URL is changed while it is served keeps
// the new one, nothing is sent to the old receiver after the answer, and nothing is lost.
func TestChangedWebhookIsChanged(t *testing.T) {
	t.Parallel()
	r := newRaceRig(t, 40)
	for i := range raceRounds(t, 3) {
		before, after := newLetterBox(t), newLetterBox(t)
		r.mustPut("w", before.URL)
		before.await(r.ctx, t, 1+rand.IntN(20))
		r.mustPut("w", after.URL)
		calls, had := before.counts()
		if had < r.records {
			after.await(r.ctx, t, r.records-had)
		}
		if now, _ := before.counts(); now > calls+underWay {
			t.Errorf("round %d: %d posts to the receiver of before", i, now-calls)
		}
		got, err := r.hooks.GetWebhook(r.ctx, &pawlv1.GetWebhookRequest{WebhookId: "w"})
		if err != nil || got.GetWebhook().GetUrl() != after.URL {
			t.Fatalf("round %d: the change is undone: %v, %v", i, got, err)
		}
		// A request that was in progress at the change may have reached both.
		if more, _ := after.counts(); calls+more > r.records+1 {
			t.Errorf("round %d: %d and %d calls for %d records", i, calls, more, r.records)
		}
		r.drop("w")
	}
}

// TestOneOfManyCreates: if eight callers put a webhook at once, exactly one creates it and all get
// an answer. Each record is sent once, although no other caller writes.
func TestOneOfManyCreates(t *testing.T) {
	t.Parallel()
	r := newRaceRig(t, 3)
	for i := range raceRounds(t, 5) {
		to := newLetterBox(t)
		var puts sync.WaitGroup
		created := make([]bool, 8)
		for n := range created {
			puts.Go(func() {
				got, err := r.put("w", fmt.Sprintf("%s/%d", to.URL, n))
				if err != nil {
					t.Errorf("round %d: %v", i, err)
				}
				created[n] = got.GetCreated()
			})
		}
		puts.Wait()
		n := 0
		for _, c := range created {
			if c {
				n++
			}
		}
		if n != 1 {
			t.Errorf("round %d: %d of 8 have created it", i, n)
		}
		to.await(r.ctx, t, r.records)
		r.drop("w")
		// Each put may have broken off one request.
		if calls, _ := to.counts(); calls > r.records+len(created) {
			t.Errorf("round %d: %d calls for %d records", i, calls, r.records)
		}
	}
}

// TestConsumerNeverFallsBehind: several callers acknowledge at once. The consumer stands at the
// furthest position that was acknowledged.
func TestConsumerNeverFallsBehind(t *testing.T) {
	t.Parallel()
	r := newRaceRig(t, 30)
	for i := range raceRounds(t, 3) {
		name := fmt.Sprint("c", i)
		cursors := r.consume(name)
		var acks sync.WaitGroup
		furthest := make([]int, 4)
		for n := range furthest {
			acks.Go(func() {
				for at := n; at < len(cursors); at += 1 + rand.IntN(len(furthest)) {
					_, err := r.hooks.AckConsumer(r.ctx, &pawlv1.AckConsumerRequest{Consumer: name, Cursor: cursors[at]})
					switch {
					case err == nil:
						furthest[n] = at
					case status.Code(err) != codes.OutOfRange:
						t.Errorf("round %d: %v", i, err)
					}
				}
			})
		}
		acks.Wait()
		all, err := r.hooks.ListConsumers(r.ctx, &pawlv1.ListConsumersRequest{})
		if err != nil || len(all.GetConsumers()) != 1 {
			t.Fatalf("round %d: %v, %v", i, all, err)
		}
		if want := cursors[max(furthest[0], furthest[1], furthest[2], furthest[3])]; all.GetConsumers()[0].GetCursor() != want {
			t.Errorf("round %d: it stands at %s, acknowledged was %s", i, all.GetConsumers()[0].GetCursor(), want)
		}
		if _, err := r.hooks.DeleteConsumer(r.ctx, &pawlv1.DeleteConsumerRequest{Consumer: name}); err != nil {
			t.Fatal(err)
		}
	}
}

// consume makes a consumer, and returns the cursors of all records.
func (r *raceRig) consume(name string) []string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	stream, err := r.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Consumer: name})
	if err != nil {
		r.t.Fatal(err)
	}
	var cursors []string
	for len(cursors) < r.records {
		got, err := stream.Recv()
		if err != nil {
			r.t.Fatal(err)
		}
		if record := got.GetRecord(); record != nil {
			cursors = append(cursors, record.GetCursor())
		}
	}
	return cursors
}
