package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// perKill is how many records a webhook may be sent again after a SIGKILL: those that
// were answered while the commits that say so were on their way, and one whose answer
// was.
const perKill = 2*32 + 1

// recordReceiver receives records and keeps how often each came, and the order of each run's.
type recordReceiver struct {
	*httptest.Server
	mu        sync.Mutex
	calls     int
	times     map[string]int
	last      map[string]int
	unordered []string
	arrived   chan struct{}
}

func newEar(t *testing.T) *recordReceiver {
	t.Helper()
	e := &recordReceiver{times: make(map[string]int), last: make(map[string]int), arrived: make(chan struct{}, 1)}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *recordReceiver) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Webhook-Id")
	run, text, _ := strings.Cut(id, "/")
	seq, _ := strconv.Atoi(text)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	if e.times[id]++; e.times[id] == 1 {
		if seq <= e.last[run] {
			e.unordered = append(e.unordered, id)
		}
		e.last[run] = seq
	}
	select {
	case e.arrived <- struct{}{}:
	default:
	}
}

func (e *recordReceiver) counts() (calls, records int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls, len(e.times)
}

func (e *recordReceiver) await(ctx context.Context, t *testing.T, records int) {
	t.Helper()
	for {
		calls, have := e.counts()
		if have >= records {
			return
		}
		select {
		case <-e.arrived:
		case <-ctx.Done():
			t.Fatalf("%d of %d records came in %d calls", have, records, calls)
		}
	}
}

// checkRecords checks that exactly these records came, each run's in order.
func (e *recordReceiver) checkRecords(t *testing.T, want map[string]bool) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range want {
		if e.times[id] == 0 {
			t.Errorf("record %s never came", id)
		}
	}
	for id := range e.times {
		if !want[id] {
			t.Errorf("record %s is not in the journal", id)
		}
	}
	if len(e.unordered) > 0 {
		t.Errorf("came behind later ones: %v", e.unordered)
	}
}

// readWebhook returns the ids of all records that a webhook receives.
func readWebhook(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient) map[string]bool {
	t.Helper()
	stream, err := runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for {
		got, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return ids
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := got.GetRecord(); r != nil {
			ids[fmt.Sprintf("%s/%d", r.GetRunId(), r.GetSeq())] = true
		}
	}
}

// TestWebhookCatchesUpAfterKills sends SIGKILL under load, PAWL_KILLS times, while a webhook is
// served. Its receiver gets every record, each run's in order, and again only those whose delivery
// a kill made unknown. A webhook that is made afterwards, and changed while no other caller writes,
// gets each record once, at a speed that is logged.
func TestWebhookCatchesUpAfterKills(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 5*time.Minute)
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("PAWL_KILLS")); err == nil {
		kills = n
	}
	s := newSidecar(t, "--pack", "testdata/crash.pack.yaml", "--allow-tool", "*", "--push-allow", "127.0.0.1")
	s.start()
	hear := func(id string, to *recordReceiver) {
		t.Helper()
		secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567"))
		put := &pawlv1.PutWebhookRequest{WebhookId: id, Url: to.URL, Secret: secret, FromBeginning: true}
		if _, err := s.deliveries().PutWebhook(ctx, put); err != nil {
			t.Fatal(err)
		}
	}
	first := newEar(t)
	hear("first", first)
	underFire(t, s, kills, killClients, s.runs)
	began := time.Now()
	want := readWebhook(ctx, t, s.runs())
	t.Logf("a stream told %d records at %.0f records/s", len(want), float64(len(want))/time.Since(began).Seconds())
	began = time.Now()
	_, before := first.counts()
	if before > len(want) {
		t.Errorf("%d records came, the journal has %d", before, len(want))
	}
	first.await(ctx, t, len(want))
	t.Logf("%d of %d records came under fire, the rest in %v", before, len(want), time.Since(began))
	first.checkRecords(t, want)
	if calls, _ := first.counts(); calls-len(want) > kills*perKill {
		t.Errorf("%d calls for %d records and %d kills, want at most %d again", calls, len(want), kills, kills*perKill)
	} else {
		t.Logf("%d of %d calls were repetitions, %d kills", calls-len(want), calls, kills)
	}
	second := newEar(t)
	began = time.Now()
	hear("second", second)
	second.await(ctx, t, 1)
	hear("second", second) // A change while it is served may break off one request.
	second.await(ctx, t, len(want))
	t.Logf("caught up with %d records at %.0f records/s", len(want), float64(len(want))/time.Since(began).Seconds())
	second.checkRecords(t, want)
	if calls, _ := second.counts(); calls > len(want)+1 {
		t.Errorf("%d calls for %d records, without a kill", calls, len(want))
	}
}
