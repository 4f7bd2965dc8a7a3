package grpcapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
)

// sends records the calls that it receives.
type sends struct{ subscriptions, stopped, resent chan machine.SubscriptionKey }

func (s *sends) Serve(key machine.SubscriptionKey) { s.subscriptions <- key }
func (s *sends) Stop(key machine.SubscriptionKey)  { s.stopped <- key }
func (s *sends) Resend(_ context.Context, key machine.SubscriptionKey, _ uint64) error {
	s.resent <- key
	return nil
}

func withSends(to *sends) func(*Config, *services.Config) {
	const room = 16
	*to = sends{make(chan machine.SubscriptionKey, room), make(chan machine.SubscriptionKey, room), make(chan machine.SubscriptionKey, room)}
	return func(c *Config, _ *services.Config) { c.Deliveries = to }
}

func secretText(bytes int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", bytes)))
}

func TestWebhookIsKept(t *testing.T) {
	t.Parallel()
	var to sends
	r, ctx := newRig(t, withTokens, withSends(&to)), testContext(t)
	ownCtx, other, admin := withToken(ctx, "driver"), withToken(ctx, "runs:read"), withToken(ctx, "admin")
	put := &pawlv1.PutWebhookRequest{
		WebhookId: "audit", Url: "https://example.com/hook", Secret: secretText(24),
		Filter: &pawlv1.RunFilter{Pack: "loop", State: "work", Labels: map[string]string{"team": "a"}, Statuses: []pawlv1.RunStatus{pawlv1.RunStatus_RUN_STATUS_RUNNING}},
		Kinds:  []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_ENDED},
	}
	created, err := r.deliveries().PutWebhook(ownCtx, put)
	if err != nil || !created.GetCreated() || created.GetWebhook().GetOwner() != "driver" || !proto.Equal(created.GetWebhook().GetFilter(), put.GetFilter()) {
		t.Fatalf("made %v, %v", created, err)
	}
	key := <-to.subscriptions
	if sub, err := r.engine.Subscriptions.Subscription(ctx, key); err != nil || len(sub.Secret) != 24 {
		t.Fatalf("stored %v", err)
	}
	put.Secret, put.Url = "", "https://example.com/other"
	changed, err := r.deliveries().PutWebhook(ownCtx, put)
	if err != nil || changed.GetCreated() || changed.GetWebhook().GetUrl() != put.GetUrl() || changed.GetWebhook().GetCursor() != created.GetWebhook().GetCursor() {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if sub, err := r.engine.Subscriptions.Subscription(ctx, <-to.subscriptions); err != nil || len(sub.Secret) != 24 {
		t.Fatalf("the secret was not kept: %v", err)
	}
	got, err := r.deliveries().GetWebhook(ownCtx, &pawlv1.GetWebhookRequest{WebhookId: "audit"})
	if err != nil || !proto.Equal(got.GetWebhook(), changed.GetWebhook()) || strings.Contains(got.String(), "kkk") {
		t.Fatalf("got %v, %v", got, err)
	}
	_, err = r.deliveries().PutWebhook(other, put)
	wantError(t, err, codes.AlreadyExists, "WEBHOOK_TAKEN")
	_, err = r.deliveries().GetWebhook(other, &pawlv1.GetWebhookRequest{WebhookId: "audit"})
	wantError(t, err, codes.NotFound, "WEBHOOK_NOT_FOUND")
	_, err = r.deliveries().DeleteWebhook(other, &pawlv1.DeleteWebhookRequest{WebhookId: "audit"})
	wantError(t, err, codes.NotFound, "WEBHOOK_NOT_FOUND")
	for _, c := range []struct {
		ctx  context.Context
		want int
	}{{ownCtx, 1}, {other, 0}, {admin, 1}} {
		hooks, err := r.deliveries().ListWebhooks(c.ctx, &pawlv1.ListWebhooksRequest{})
		all, err2 := r.deliveries().ListDeliveries(c.ctx, &pawlv1.ListDeliveriesRequest{})
		if err != nil || err2 != nil || len(hooks.GetWebhooks()) != c.want || len(all.GetDeliveries()) != c.want {
			t.Errorf("webhooks %v, %v; deliveries %v, %v; want %d", hooks, err, all, err2, c.want)
		}
	}
	if _, err := r.deliveries().DeleteWebhook(admin, &pawlv1.DeleteWebhookRequest{WebhookId: "audit"}); err != nil || <-to.stopped != key {
		t.Fatalf("deleted: %v", err)
	}
}

func TestWebhooksThatAreRefused(t *testing.T) {
	t.Parallel()
	var to sends
	r, ctx := newRig(t, withSends(&to)), testContext(t)
	const url = "https://example.com/"
	for _, tt := range []struct{ url, secret, reason string }{
		{"", secretText(24), "INVALID_REQUEST"},
		{"example.com", secretText(24), "BAD_URL"},
		{"ftp://example.com", secretText(24), "BAD_URL"},
		{"https://", secretText(24), "BAD_URL"},
		{"https://:443/", secretText(24), "BAD_URL"},
		{"https://me:pw@example.com", secretText(24), "BAD_URL"},
		{"https://example.com/\n", secretText(24), "BAD_URL"},
		{url, "", "BAD_SECRET"},
		{url, secretText(23), "BAD_SECRET"},
		{url, secretText(65), "BAD_SECRET"},
		{url, "hunter2hunter2hunter2hunter2hunter2", "BAD_SECRET"},
		{url, "whsec_????", "BAD_SECRET"},
	} {
		_, err := r.deliveries().PutWebhook(ctx, &pawlv1.PutWebhookRequest{WebhookId: "w", Url: tt.url, Secret: tt.secret})
		st := wantError(t, err, codes.InvalidArgument, tt.reason)
		if tt.secret != "" && strings.Contains(st.String(), tt.secret) {
			t.Errorf("the secret is repeated: %v", st)
		}
	}
	if list, err := r.deliveries().ListWebhooks(ctx, &pawlv1.ListWebhooksRequest{}); err != nil || len(list.GetWebhooks()) != 0 {
		t.Fatalf("webhooks %v, %v", list, err)
	}
	off := newRig(t)
	_, err := off.deliveries().PutWebhook(ctx, &pawlv1.PutWebhookRequest{WebhookId: "w", Url: url, Secret: secretText(24)})
	wantError(t, err, codes.FailedPrecondition, "DELIVERIES_OFF")
}

// TestRecordFeed: the feed has the records after a position as CloudEvents, as the owner reads them, and only
// while the owner may read them.
func TestRecordFeed(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	turn := r.drive(withToken(ctx, "driver"), r.start(withToken(ctx, "driver")).GetTurn(), 2)
	sub := &machine.Subscription{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "w"}, Owner: "driver"}
	feed, err := r.services.RecordFeed(ctx, sub)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	events, err := feed.Next(ctx)
	if err != nil || len(events) != 3 {
		t.Fatalf("events %v, %v", events, err)
	}
	page, err := r.runs.ListTransitions(withToken(ctx, "driver"), &pawlv1.ListTransitionsRequest{RunId: turn.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	for i, event := range events {
		var ce map[string]any
		var data struct{ Data json.RawMessage }
		var record pawlv1.Record
		if json.Unmarshal(event.Body, &ce) != nil || json.Unmarshal(event.Body, &data) != nil || protojson.Unmarshal(data.Data, &record) != nil {
			t.Fatalf("body %s", event.Body)
		}
		if want := page.GetRecords()[i]; !proto.Equal(&record, want) || ce["time"] != want.GetAt().AsTime().Format("2006-01-02T15:04:05.999999999Z07:00") {
			t.Errorf("event %s, want %v", event.Body, want)
		}
		if event.Type != "application/cloudevents+json" || ce["specversion"] != "1.0" || ce["id"] != event.ID ||
			ce["type"] != "dev.pawl.record.transition" || ce["subject"] != turn.GetRunId() ||
			!strings.HasPrefix(ce["source"].(string), "/pawl/") || !strings.HasSuffix(ce["source"].(string), "/default") {
			t.Errorf("event %s", event.Body)
		}
	}
	sub.After, sub.Index = events[1].After, events[1].Index
	rest, err := r.services.RecordFeed(ctx, sub)
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if got, err := rest.Next(ctx); err != nil || len(got) != 1 || got[0].ID != events[2].ID || string(got[0].Body) != string(events[2].Body) {
		t.Fatalf("behind the second: %v, %v", got, err)
	}
	sub.Owner = "packs:write"
	if _, err := r.services.RecordFeed(ctx, sub); err == nil {
		t.Fatal("an owner without the right is served")
	}
}

// TestDeadLetters: the owner and admin can list dead letters page by page, with and without bodies.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	var to sends
	r, ctx := newRig(t, withTokens, withSends(&to)), testContext(t)
	ownCtx, other, admin := withToken(ctx, "driver"), withToken(ctx, "runs:read"), withToken(ctx, "admin")
	if _, err := r.deliveries().PutWebhook(ownCtx, &pawlv1.PutWebhookRequest{WebhookId: "w", Url: "https://example.com", Secret: secretText(32)}); err != nil {
		t.Fatal(err)
	}
	key := <-to.subscriptions
	for n := range uint64(5) {
		before, err := r.engine.Subscriptions.Subscription(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		sub := *before
		sub.Dead++
		if err := r.engine.Subscriptions.NoteTry(ctx, sub, before, &machine.DeadLetter{N: n + 1, At: 1, Event: "e", Type: "t", Body: []byte("body"), Error: "no"}); err != nil {
			t.Fatal(err)
		}
	}
	ref := &pawlv1.DeliveryRef{Kind: pawlv1.DeliveryKind_DELIVERY_KIND_WEBHOOK, Id: "w"}
	for _, body := range []bool{false, true} {
		var seen []uint64
		req := &pawlv1.ListDeadLettersRequest{DeliveryRef: ref, PageSize: 2, IncludeBody: body}
		for {
			page, err := r.deliveries().ListDeadLetters(admin, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, letter := range page.GetDeadLetters() {
				seen = append(seen, letter.GetN())
				if letter.GetSize() != 4 || (string(letter.GetBody()) == "body") != body || letter.GetError() != "no" {
					t.Errorf("letter %v", letter)
				}
			}
			if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
		}
		if len(seen) != 5 || seen[0] != 1 || seen[4] != 5 {
			t.Fatalf("letters %v", seen)
		}
	}
	_, err := r.deliveries().ListDeadLetters(other, &pawlv1.ListDeadLettersRequest{DeliveryRef: ref})
	wantError(t, err, codes.NotFound, "DELIVERY_NOT_FOUND")
	_, err = r.deliveries().ResendDeadLetter(other, &pawlv1.ResendDeadLetterRequest{DeliveryRef: ref, N: 1})
	wantError(t, err, codes.NotFound, "DELIVERY_NOT_FOUND")
	if _, err := r.deliveries().ResendDeadLetter(ownCtx, &pawlv1.ResendDeadLetterRequest{DeliveryRef: ref, N: 1}); err != nil || <-to.resent != key {
		t.Fatalf("resent: %v", err)
	}
	_, err = r.deliveries().DiscardDeadLetter(other, &pawlv1.DiscardDeadLetterRequest{DeliveryRef: ref, N: 2})
	wantError(t, err, codes.NotFound, "DELIVERY_NOT_FOUND")
	if _, err := r.deliveries().DiscardDeadLetter(ownCtx, &pawlv1.DiscardDeadLetterRequest{DeliveryRef: ref, N: 2}); err != nil {
		t.Fatalf("discarded: %v", err)
	}
	_, err = r.deliveries().DiscardDeadLetter(ownCtx, &pawlv1.DiscardDeadLetterRequest{DeliveryRef: ref, N: 2})
	wantError(t, err, codes.NotFound, "DEAD_LETTER_NOT_FOUND")
	if remaining, err := r.deliveries().ListDeadLetters(ownCtx, &pawlv1.ListDeadLettersRequest{DeliveryRef: ref}); err != nil || len(remaining.GetDeadLetters()) != 4 || remaining.GetDeadLetters()[1].GetN() != 3 {
		t.Fatalf("left: %v, %v", remaining, err)
	}
	troubled, err := r.deliveries().ListDeliveries(ownCtx, &pawlv1.ListDeliveriesRequest{Troubled: true})
	if err != nil || len(troubled.GetDeliveries()) != 1 || troubled.GetDeliveries()[0].GetDeadLetters() != 5 {
		t.Fatalf("troubled %v, %v", troubled, err)
	}
}
