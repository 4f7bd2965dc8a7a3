package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Two keys of decision links, as a file has them.
var oldKey, newKey = strings.Repeat("a1", 32), strings.Repeat("b2", 32)

const publicURL = "https://approve.example.com"

// openLink opens a link, or posts a decision with it.
func (s *sidecar) openLink(link, decision string) (int, string) {
	s.t.Helper()
	at := "http://" + s.http + strings.TrimPrefix(link, publicURL)
	var resp *http.Response
	var err error
	if decision == "" {
		resp, err = http.Get(at)
	} else {
		resp, err = http.PostForm(at, url.Values{"decision": {decision}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(page)
}

// mailbox keeps the link of each held call that a webhook delivers, by its idempotent place.
type mailbox struct {
	mu      sync.Mutex
	links   map[string]string
	arrived chan struct{}
}

func (m *mailbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var event struct {
		DecisionLink string
		Data         struct {
			RunID         string `json:"runId"`
			StepRequested struct{ Step uint32 }
		}
	}
	if json.NewDecoder(r.Body).Decode(&event) == nil && event.DecisionLink != "" {
		m.mu.Lock()
		m.links[fmt.Sprintf("%s/%d", event.Data.RunID, event.Data.StepRequested.Step)] = event.DecisionLink
		m.mu.Unlock()
	}
	select {
	case m.arrived <- struct{}{}:
	default:
	}
}

func (m *mailbox) await(ctx context.Context, t *testing.T, place string) string {
	t.Helper()
	for {
		m.mu.Lock()
		link := m.links[place]
		m.mu.Unlock()
		if link != "" {
			return link
		}
		select {
		case <-m.arrived:
		case <-ctx.Done():
			t.Fatalf("no link came for %s", place)
		}
	}
}

// TestDecisionLinks: people decide with links that a webhook delivers and a list shows, over a SIGKILL
// and over a change of keys; each call is decided once, and has the effect that was decided.
func TestDecisionLinks(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 5*time.Minute)
	keys := filepath.Join(t.TempDir(), "keys")
	write := func(lines ...string) {
		if err := os.WriteFile(keys, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(oldKey)
	trail := filepath.Join(t.TempDir(), "audit")
	s := newSidecar(t, "--pack", "testdata/approve.pack.yaml", "--allow-tool", "*", "--http", "127.0.0.1:0", "--push-allow", "127.0.0.1",
		"--audit", trail, "--link-url", publicURL, "--link-keys-file", keys, "--link-expiry", "0")
	s.start()
	box := &mailbox{links: map[string]string{}, arrived: make(chan struct{}, 1)}
	receiver := httptest.NewServer(box)
	defer receiver.Close()
	put := &pawlv1.PutWebhookRequest{WebhookId: "mail", Url: receiver.URL, Secret: "whsec_" + strings.Repeat("AAAA", 8), LinkFor: "alice@example.com"}
	if _, err := s.deliveries().PutWebhook(ctx, put); err != nil {
		t.Fatal(err)
	}
	effects := &refunds{payments: map[string][]string{}}
	stop := startWorker(ctx, t, s, pawl.WorkerConfig{
		ID: "clerk", Turns: 4, Steps: 64, Prompts: map[string]pawl.TurnFunc{"clerk": refundTurn}, Tools: map[string]pawl.ToolFunc{"refund": effects.pay},
	})
	defer stop()
	started, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "approve", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	run := started.GetRun().GetRunId()
	control := pawlv1.NewControlServiceClient(s.dial())
	approvals := heldCalls(ctx, t, func() pawlv1.ControlServiceClient { return control }, run)
	links := make([]string, len(approvals))
	for i, a := range approvals {
		links[i] = box.await(ctx, t, fmt.Sprintf("%s/%d", run, a.GetCall().GetStep()))
		if code, page := s.openLink(links[i], ""); code != http.StatusOK || !strings.Contains(page, a.GetCall().GetApproval().GetDigest()) {
			t.Fatalf("%d %s", code, page)
		}
	}
	if out, err := s.command("approvals", "list", "--addr", "unix:"+s.socket, "--link-for", "bob@example.com", "-o", "json").CombinedOutput(); err != nil || strings.Count(string(out), publicURL+"/decide/") != heldTogether {
		t.Fatalf("%s, %v", out, err)
	}
	want := func(link, decision string, code int, words ...string) {
		t.Helper()
		got, page := s.openLink(link, decision)
		for _, word := range words {
			if !strings.Contains(page, word) {
				t.Errorf("no %q in %s", word, page)
			}
		}
		if got != code {
			t.Errorf("answered %d, want %d: %s", got, code, page)
		}
	}
	want(links[0], "approve", http.StatusOK, "approved", "link:alice@example.com")
	s.kill()
	write(newKey, oldKey)
	s.start()
	want(links[0], "deny", http.StatusConflict, "Already decided: approved", "link:alice@example.com")
	want(links[1], "deny", http.StatusOK, "denied")
	shown, err := control.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{RunId: run, LinkFor: "bob@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	bobs := map[uint32]string{}
	for _, a := range shown.GetApprovals() {
		bobs[a.GetCall().GetStep()] = a.GetLink()
	}
	s.stop()
	write(newKey)
	s.start()
	want(links[2], "approve", http.StatusForbidden, "not valid")
	for i, a := range approvals[2:] {
		link := bobs[a.GetCall().GetStep()]
		// Two clicks at once: one decides, and the other says what was decided.
		var pair sync.WaitGroup
		var codes [2]int
		for k := range codes {
			pair.Go(func() { codes[k], _ = s.openLink(link, []string{"approve", "deny"}[(i+k)%2]) })
		}
		pair.Wait()
		if codes != [2]int{http.StatusOK, http.StatusConflict} && codes != [2]int{http.StatusConflict, http.StatusOK} {
			t.Errorf("two clicks are answered %v", codes)
		}
	}
	if got, err := s.runs().WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run}); err != nil || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("%v, %v", got, err)
	}
	s.decidedAsPaid(ctx, t, run, approvals, effects)
	if out, err := s.command("audit", "export", trail, "--method", "pawl.v1.ControlService/DecideStep").CombinedOutput(); err != nil || !strings.Contains(string(out), "link:alice@example.com") || !strings.Contains(string(out), "link:bob@example.com") {
		t.Errorf("audit: %s, %v", out, err)
	}
	stop()
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.check()
}

// decidedAsPaid checks that each call was decided once, and paid once if it was approved.
func (s *sidecar) decidedAsPaid(ctx context.Context, t *testing.T, run string, held []*pawlv1.Approval, effects *refunds) {
	t.Helper()
	records, err := s.runs().ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED}})
	if err != nil {
		t.Fatal(err)
	}
	approved := map[uint32][]bool{}
	for _, r := range records.GetRecords() {
		d := r.GetStepDecided()
		approved[d.GetStep()] = append(approved[d.GetStep()], d.GetVerdict() == pawlv1.StepVerdict_STEP_VERDICT_APPROVED)
		if !strings.HasPrefix(r.GetPrincipal(), "anonymous>link:") {
			t.Errorf("step %d was decided by %s", d.GetStep(), r.GetPrincipal())
		}
	}
	effects.mu.Lock()
	defer effects.mu.Unlock()
	for _, a := range held {
		call := a.GetCall()
		decisions, paid := approved[call.GetStep()], len(effects.payments[call.GetIdempotencyKey()])
		if len(decisions) != 1 || (paid == 1) != decisions[0] || paid > 1 {
			t.Errorf("step %d: decided %v, paid %d times", call.GetStep(), decisions, paid)
		}
	}
}
