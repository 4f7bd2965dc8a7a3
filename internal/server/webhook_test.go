package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

var hookKey = []byte("0123456789abcdef01234567")

func hookSecret() string { return "whsec_" + base64.StdEncoding.EncodeToString(hookKey) }

// hooks receives CloudEvents and checks their signatures; closed, it answers 503.
type hooks struct {
	mu     sync.Mutex
	closed bool
	events []string
	faults []string
	refuse chan struct{}
	ended  chan struct{}
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		select {
		case h.refuse <- struct{}{}:
		default:
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	mac := hmac.New(sha256.New, hookKey)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("Webhook-Signature") != want {
		h.faults = append(h.faults, "signature "+r.Header.Get("Webhook-Signature"))
	}
	var event struct{ ID, Type, Subject string }
	if err := json.Unmarshal(body, &event); err != nil || r.Header.Get("Content-Type") != "application/cloudevents+json" || r.Header.Get("Webhook-Id") != event.ID {
		h.faults = append(h.faults, fmt.Sprintf("%v %v %s", err, r.Header, body))
	}
	told := strings.TrimPrefix(event.ID, event.Subject) + " " + strings.TrimPrefix(event.Type, "dev.pawl.record.")
	// At least once: the same one may come again, in its place.
	if n := len(h.events); n == 0 || h.events[n-1] != told {
		h.events = append(h.events, told)
	}
	if event.Type == "dev.pawl.record.ended" {
		close(h.ended)
	}
}

func (h *hooks) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = false
}

// TestWebhook: a receiver that is away gets every record, signed and in order, once it
// is back, although the sidecar was restarted meanwhile, one receiver never answers and
// another is at an address that the operator does not allow.
func TestWebhook(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	box := &hooks{closed: true, refuse: make(chan struct{}, 1), ended: make(chan struct{})}
	receiver := httptest.NewServer(box)
	defer receiver.Close()
	release, held := make(chan struct{}), make(chan struct{}, 100)
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		held <- struct{}{}
		<-release
	}))
	defer slow.Close()
	defer close(release)
	c := settings(t)
	c.A2A, c.Packs, c.PushAllow = false, []string{packAt(t)}, []string{"127.0.0.1"}

	first := serve(t, c)
	conn := dial(t, first.ready.GRPC)
	runs, deliveries := pawlv1.NewRunServiceClient(conn), pawlv1.NewDeliveryServiceClient(conn)
	for id, url := range map[string]string{"good": receiver.URL, "slow": slow.URL, "private": "http://10.255.255.1/"} {
		put := &pawlv1.PutWebhookRequest{WebhookId: id, Url: url, Secret: hookSecret(), FromBeginning: true}
		if _, err := deliveries.PutWebhook(ctx, put); err != nil {
			t.Fatal(err)
		}
	}
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "team", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	emit := &pawlv1.EmitEventRequest{RunId: started.GetRun().GetRunId(), Event: "Done", TurnToken: started.GetTurn().GetToken()}
	if got, err := runs.EmitEvent(ctx, emit); err != nil {
		t.Fatalf("emitted %v, %v", got, err)
	}
	await(ctx, t, box.refuse)
	await(ctx, t, held)
	for {
		got, err := deliveries.GetWebhook(ctx, &pawlv1.GetWebhookRequest{WebhookId: "private"})
		if err != nil {
			t.Fatal(err)
		}
		if lastError := got.GetWebhook().GetLastError(); lastError != "" {
			if !strings.Contains(lastError, "no public address") {
				t.Errorf("the private address: %s", lastError)
			}
			break
		}
	}
	first.stop()
	if err := <-first.ended; err != nil {
		t.Fatal(err)
	}
	box.open()
	second := serveToEnd(t, c)
	turn, err := pawlv1.NewRunServiceClient(dial(t, second.ready.GRPC)).GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: emit.GetRunId()})
	if err == nil {
		_, err = pawlv1.NewRunServiceClient(dial(t, second.ready.GRPC)).CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
			RunId: emit.GetRunId(), TurnSeq: turn.GetTurn().GetTurnSeq(), Attempt: turn.GetTurn().GetAttempt(), TurnToken: turn.GetTurn().GetToken(),
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	await(ctx, t, box.ended)
	box.mu.Lock()
	defer box.mu.Unlock()
	if len(box.faults) > 0 {
		t.Errorf("faults: %v", box.faults)
	}
	if len(box.events) != 3 || !strings.HasSuffix(box.events[1], " transition") || !slices.IsSorted(box.events) {
		t.Errorf("events %v", box.events)
	}
}

func await(ctx context.Context, t *testing.T, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-ctx.Done():
		t.Fatal("it did not happen in time")
	}
}
