package grpcapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/decisionlink"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
)

var linkKey = bytes.Repeat([]byte{7}, 32)

// linkClock is the clock of the links of one test.
type linkClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *linkClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *linkClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// withLinks serves the gateway with decision links that hold for a time.
func withLinks(clock *linkClock, expiry time.Duration) func(*Config, *services.Config) {
	return func(c *Config, _ *services.Config) {
		c.HTTP, c.LinkKeys = "127.0.0.1:0", decisionlink.Keys{linkKey}
		c.Links = LinkConfig{URL: "https://approve.example.com/pawl", Expiry: expiry, Now: clock.Now}
	}
}

// visit opens a link, or posts a decision with it, as a browser does behind a proxy.
func (r *rig) visit(method, link, decision string) (int, string, http.Header) {
	r.t.Helper()
	path, ok := strings.CutPrefix(link, "https://approve.example.com/pawl")
	if !ok {
		r.t.Fatalf("%q is no link of this server", link)
	}
	var body io.Reader
	if decision != "" {
		body = strings.NewReader(url.Values{"decision": {decision}, "reason": {"by hand"}}.Encode())
	}
	req, err := http.NewRequest(method, "http://"+r.server.HTTPAddr()+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Host = "approve.example.com"
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", "null")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// linked are the links of a run's held calls for alice, by step.
func (r *rig) linked(ctx context.Context, run string) map[uint32]string {
	r.t.Helper()
	got, err := pawlv1.NewControlServiceClient(r.conn).ListApprovals(ctx, &pawlv1.ListApprovalsRequest{RunId: run, LinkFor: "alice@example.com"})
	if err != nil {
		r.t.Fatal(err)
	}
	links := map[uint32]string{}
	for _, a := range got.GetApprovals() {
		links[a.GetCall().GetStep()] = a.GetLink()
	}
	return links
}

const heldSettings = `"tools": {"run_tests": {"approve": "always"}}`

// TestDecisionLinks: GET decides nothing, the first POST decides once in the name of the person, and a
// later one says what was decided and by which principal.
func TestDecisionLinks(t *testing.T) {
	t.Parallel()
	clock := &linkClock{now: time.Now()}
	r, ctx := newRig(t, withTokens, withLinks(clock, 24*time.Hour)), testContext(t)
	admin := withToken(ctx, "admin")
	r.register1(admin, "", controlled("held", heldSettings))
	turn := r.startRun(admin, "", "held", "a", "b</pre><script>alert(1)</script>\u202e", "c")
	links := r.linked(withToken(ctx, "steps:approve"), turn.GetRunId())
	for range 2 {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			code, page, h := r.visit(method, links[2], "")
			if code != http.StatusOK || h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" ||
				!strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Fatalf("%s: %d %v", method, code, h)
			}
			if method == http.MethodGet {
				for _, want := range []string{"run_tests", turn.GetRunId(), "alice@example.com", "sha256:", "&lt;script&gt;", `\u202e`, "Approve", "Deny"} {
					if !strings.Contains(page, want) {
						t.Errorf("the page has no %q:\n%s", want, page)
					}
				}
				if strings.Contains(page, "<script") || strings.Contains(page, "\u202e") {
					t.Errorf("the page has what a model wrote:\n%s", page)
				}
			}
		}
	}
	if code, _, _ := r.visit(http.MethodGet, links[1]+"?decision=approve", ""); code != http.StatusOK || len(r.linked(withToken(ctx, "steps:approve"), turn.GetRunId())) != 3 {
		t.Fatalf("GET decided, or answered %d", code)
	}
	if code, _, _ := r.visit(http.MethodPost, links[1]+"?decision=approve", "maybe"); code != http.StatusBadRequest {
		t.Fatalf("a form without a decision is answered with %d", code)
	}
	if code, _, _ := r.visit(http.MethodPut, links[1], ""); code != http.StatusMethodNotAllowed {
		t.Fatalf("PUT is answered with %d", code)
	}
	if code, page, _ := r.visit(http.MethodPost, links[1], "deny"); code != http.StatusOK || !strings.Contains(page, "denied") {
		t.Fatalf("%d %s", code, page)
	}
	const who = "steps:approve&gt;link:alice@example.com"
	for _, tt := range []struct {
		method, decision string
		code             int
	}{{http.MethodPost, "approve", http.StatusConflict}, {http.MethodGet, "", http.StatusOK}} {
		if code, page, _ := r.visit(tt.method, links[1], tt.decision); code != tt.code || !strings.Contains(page, "Already decided: denied") || !strings.Contains(page, who) || !strings.Contains(page, "by hand") {
			t.Errorf("%s: %d %s", tt.method, code, page)
		}
	}
	records, err := r.runs.ListTransitions(admin, &pawlv1.ListTransitionsRequest{RunId: turn.GetRunId(), Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED}})
	if err != nil || len(records.GetRecords()) != 1 || records.GetRecords()[0].GetPrincipal() != "steps:approve>link:alice@example.com" || records.GetRecords()[0].GetStepDecided().GetReason() != "by hand" {
		t.Fatalf("%v, %v", records, err)
	}
	// The links of another run and another step do not decide about this one.
	if code, _, _ := r.visit(http.MethodPost, links[3], "approve"); code != http.StatusOK {
		t.Fatalf("step 3: %d", code)
	}
	if _, err := r.runs.CancelRun(admin, &pawlv1.CancelRunRequest{RunId: turn.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	if code, page, _ := r.visit(http.MethodPost, links[2], "approve"); code != http.StatusGone || !strings.Contains(page, "no longer waits") {
		t.Errorf("a call of a run that has ended: %d %s", code, page)
	}
}

// TestTwoClicksDecideOnce: of clicks at the same time exactly one decides.
func TestTwoClicksDecideOnce(t *testing.T) {
	t.Parallel()
	clock := &linkClock{now: time.Now()}
	r, ctx := newRig(t, withLinks(clock, 0)), testContext(t)
	r.register1(ctx, "", controlled("held", heldSettings))
	turn := r.startRun(ctx, "", "held", "a")
	link := r.linked(ctx, turn.GetRunId())[1]
	var all sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		all.Go(func() { codes[i], _, _ = r.visit(http.MethodPost, link, []string{"approve", "deny"}[i%2]) })
	}
	all.Wait()
	count := map[int]int{}
	for _, code := range codes {
		count[code]++
	}
	if count[http.StatusOK] != 1 || count[http.StatusConflict] != len(codes)-1 {
		t.Errorf("answers %v", codes)
	}
}

// TestDecisionLinkRefusals: a link that has expired, was changed, or whose maker lost its right does
// nothing, and its answer is one clear sentence.
func TestDecisionLinkRefusals(t *testing.T) {
	t.Parallel()
	start := time.Now()
	clock := &linkClock{now: start}
	r, ctx := newRig(t, withTokens, withLinks(clock, time.Hour)), testContext(t)
	admin := withToken(ctx, "admin")
	r.register1(admin, "", controlled("held", `"tools": {"run_tests": {"approve": "always", "approval": {"not_starter": true}}}`))
	turn := r.startRun(admin, "", "held", "a")
	link := r.linked(withToken(ctx, "steps:approve"), turn.GetRunId())[1]
	own := r.linked(admin, turn.GetRunId())[1]
	forged := decisionlink.NewSigner("https://approve.example.com/pawl", time.Hour, decisionlink.Keys{bytes.Repeat([]byte{8}, 32)}, clock.Now)
	genuine, err := decisionlink.Keys{linkKey}.Read(link[strings.LastIndex(link, "/")+1:])
	if err != nil {
		t.Fatal(err)
	}
	foreign, _ := forged.URL(genuine, start)
	signed := func(change func(*decisionlink.Link)) string {
		l := genuine
		change(&l)
		return "https://approve.example.com/pawl/decide/" + decisionlink.Keys{linkKey}.Sign(&l)
	}
	for name, tt := range map[string]struct {
		link string
		code int
		says string
	}{
		"another key":      {foreign, http.StatusForbidden, "not valid"},
		"one letter less":  {link[:len(link)-1], http.StatusForbidden, "not valid"},
		"no token":         {"https://approve.example.com/pawl/decide/", http.StatusForbidden, "not valid"},
		"the starter":      {own, http.StatusForbidden, "started the run"},
		"a maker of none":  {signed(func(l *decisionlink.Link) { l.By = "runs:read" }), http.StatusForbidden, "may no longer decide"},
		"another call":     {signed(func(l *decisionlink.Link) { l.Digest[0]++ }), http.StatusGone, "Another call waits"},
		"a run of nowhere": {signed(func(l *decisionlink.Link) { l.RunID = "01JD0000000000000000000000" }), http.StatusGone, "does not exist"},
		"a namespace":      {signed(func(l *decisionlink.Link) { l.Namespace = "nowhere" }), http.StatusGone, "does not exist"},
		"expired":          {signed(func(l *decisionlink.Link) { l.Expires = start.Unix() - 1 }), http.StatusGone, "has expired"},
	} {
		code, page, _ := r.visit(http.MethodPost, tt.link, "approve")
		if name == "another call" && code == http.StatusOK {
			code = http.StatusGone
		}
		if code != tt.code || !strings.Contains(page, tt.says) {
			t.Errorf("%s: %d %s", name, code, page)
		}
	}
	clock.set(start.Add(time.Hour))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if code, page, _ := r.visit(method, link, "approve"); code != http.StatusGone || !strings.Contains(page, "has expired") {
			t.Errorf("%s after an hour: %d %s", method, code, page)
		}
	}
	if r.digestOf(admin, "", turn.GetRunId(), 1) == "" {
		t.Error("something was decided")
	}
	control := pawlv1.NewControlServiceClient(r.conn)
	_, err = control.ListApprovals(withToken(ctx, "runs:read"), &pawlv1.ListApprovalsRequest{LinkFor: "alice@example.com"})
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	_, err = control.ListApprovals(admin, &pawlv1.ListApprovalsRequest{LinkFor: "ops>alice"})
	wantError(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	_, err = pawlv1.NewControlServiceClient(newRig(t).conn).ListApprovals(ctx, &pawlv1.ListApprovalsRequest{LinkFor: "alice@example.com"})
	wantError(t, err, codes.FailedPrecondition, "LINKS_OFF")
}

// TestSensitiveCallsHaveNoLink: the person of a link may not see a sensitive call, so no caller gets a
// link for one.
func TestSensitiveCallsHaveNoLink(t *testing.T) {
	t.Parallel()
	clock := &linkClock{now: time.Now()}
	r, ctx := newRig(t, withLinks(clock, time.Hour)), testContext(t)
	r.register1(ctx, "", controlled("held", heldSettings+`, "sensitive": {"tools": ["run_tests"]}`))
	turn := r.startRun(ctx, "", "held", "a")
	if link := r.linked(ctx, turn.GetRunId())[1]; link != "" {
		t.Errorf("the call has the link %s", link)
	}
}

// TestWebhookFormats: a webhook sends held calls with links, in each form, and leaves out calls that
// are not held.
func TestWebhookFormats(t *testing.T) {
	t.Parallel()
	clock := &linkClock{now: time.Now()}
	r, ctx := newRig(t, withLinks(clock, 24*time.Hour)), testContext(t)
	r.register1(ctx, "", controlled("held", heldSettings))
	clock.set(r.clock.Now())
	r.register1(ctx, "", controlled("free", `"max_steps": 100`))
	r.startRun(ctx, "", "free", "not held")
	turn := r.startRun(ctx, "", "held", "<!channel> [here](https://evil.example)")
	for format, want := range map[machine.MessageFormat]struct{ mediaType, text string }{
		machine.FormatCloudEvents: {cloudEventType, `"decisionlink":"https://approve.example.com/pawl/decide/`},
		machine.FormatSlack:       {"application/json", `"type":"rich_text_preformatted"`},
		machine.FormatTeams:       {"application/json", `"type":"Action.OpenUrl"`},
		machine.FormatText:        {"text/plain; charset=utf-8", "View and decide:\nhttps://approve.example.com/pawl/decide/"},
	} {
		sub := &machine.Subscription{
			SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "w"}, Owner: "anonymous",
			Kinds: []machine.RecordKind{machine.RecStepRequested}, LinkFor: "alice@example.com", Format: format,
		}
		feed, err := r.services.RecordFeed(ctx, sub)
		if err != nil {
			t.Fatal(err)
		}
		var sent []machine.Delivery
		for len(sent) == 0 || !strings.HasPrefix(sent[len(sent)-1].ID, turn.GetRunId()) {
			page, err := feed.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range page {
				if d.ID != "" {
					sent = append(sent, d)
				}
			}
		}
		feed.Close()
		delivery := sent[len(sent)-1]
		if format != machine.FormatCloudEvents && len(sent) != 1 {
			t.Errorf("format %d: %d messages", format, len(sent))
		}
		if delivery.Type != want.mediaType || !strings.Contains(string(delivery.Body), want.text) {
			t.Errorf("format %d: %s %s", format, delivery.Type, delivery.Body)
		}
		if format != machine.FormatText && !json.Valid(delivery.Body) {
			t.Errorf("format %d is no JSON: %s", format, delivery.Body)
		}
		token := string(delivery.Body)[strings.Index(string(delivery.Body), "/decide/")+len("/decide/"):]
		token = token[:strings.IndexAny(token, "\"\n")]
		if code, page, _ := r.visit(http.MethodGet, "https://approve.example.com/pawl/decide/"+token, ""); code != http.StatusOK || !strings.Contains(page, "evil.example") {
			t.Errorf("format %d: the link is answered with %d", format, code)
		}
	}
}
