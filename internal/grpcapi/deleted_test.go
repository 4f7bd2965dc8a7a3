package grpcapi

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
)

// withDeletions makes the rig keep everything in a real store, which can delete.
func withDeletions(t *testing.T) func(*Config, *services.Config) {
	s, err := store.Open(store.Options{Dir: filepath.Join(t.TempDir(), "db"), MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(_ *Config, c *services.Config) { c.Store, c.Archive, c.Subscriptions, c.Deletions = s, s, s, s }
}

// cancelled starts a run, cancels it and returns its id.
func (r *rig) cancelled(ctx context.Context) string {
	r.t.Helper()
	run := r.startOnly(ctx).GetRun().GetRunId()
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run}); err != nil {
		r.t.Fatal(err)
	}
	return run
}

func (r *rig) remove(ctx context.Context, run string) {
	r.t.Helper()
	if _, err := r.runs.DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: run}); err != nil {
		r.t.Fatal(err)
	}
}

// TestDeletedRunIsNotRemembered: recent commits are held in memory for followers of all runs. If a run is
// deleted, its records are removed from there too. A follower still gets the records of later runs.
func TestDeletedRunIsNotRemembered(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withDeletions(t)), testContext(t)
	r.register(ctx)
	w, err := r.engine.Watches.Watch(ctx, streams.Request{
		Call: runtime.Call{Principal: runtime.Principal{Subject: "reader", Scopes: runtime.ScopeAdmin}}, Follow: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	gone, kept := r.cancelled(ctx), r.cancelled(ctx)
	r.remove(ctx, gone)
	for told := 0; told < 2; {
		page, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Records {
			if told++; page.Records[i].RunID != kept {
				t.Fatalf("record %d of %s, which was deleted", page.Records[i].Record.Seq, page.Records[i].RunID)
			}
		}
	}
}

// TestWebhookPassesOverADeletedRun: records that were read before their run was deleted are not sent. The
// position of the webhook moves past them.
func TestWebhookPassesOverADeletedRun(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens, withDeletions(t)), testContext(t)
	ctx = withToken(ctx, "admin")
	r.register(ctx)
	kept, gone := r.cancelled(ctx), r.cancelled(ctx)
	sub := &machine.Subscription{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "w"}, Owner: "admin"}
	feed, err := r.services.RecordFeed(ctx, sub)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	page, err := feed.watch.Next(ctx)
	if err != nil || len(page.Records) != 4 {
		t.Fatalf("%d records, %v", len(page.Records), err)
	}
	r.remove(ctx, gone)
	events, err := feed.deliveries(ctx, &page)
	if err != nil || len(events) != 4 {
		t.Fatalf("events %v, %v", events, err)
	}
	for i, event := range events {
		row := &page.Records[i]
		if event.After != row.Cursor.Position || (event.ID != "") != (row.RunID == kept) {
			t.Errorf("event %d of run %s is %q at %d", i, row.RunID, event.ID, event.After)
		}
	}
}

// toldStream is a reader that calls first when it receives its first record.
type toldStream struct {
	grpc.ServerStreamingServer[pawlv1.StreamTransitionsResponse]
	first func()
	runs  []string
}

func (s *toldStream) SendMsg(m any) error {
	var item pawlv1.StreamTransitionsResponse
	if err := proto.Unmarshal(m.(codec.Message), &item); err != nil {
		return err
	}
	if len(s.runs) == 0 {
		s.first()
	}
	s.runs = append(s.runs, item.GetRecord().GetRunId())
	return nil
}

// TestStreamPassesOverADeletedRun: a stream of all runs continues after a run that was deleted since its
// records were read. The stream of that run itself ends with the reason.
func TestStreamPassesOverADeletedRun(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withDeletions(t)), testContext(t)
	r.register(ctx)
	before, gone, after := r.cancelled(ctx), r.cancelled(ctx), r.cancelled(ctx)
	call := runtime.Call{Principal: runtime.Principal{Subject: "reader", Scopes: runtime.ScopeAdmin}}
	show := newRecordEncoder(r.services.runs, call)
	pump := func(to *toldStream, filter streams.Filter) error {
		w, err := r.engine.Watches.Watch(ctx, streams.Request{Call: call, Filter: filter})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		show.one = filter.RunID != ""
		return streamEnd(ctx, r.services.runs.sendPages(ctx, w, show, to))
	}
	all := &toldStream{first: func() { r.remove(ctx, gone) }}
	if err := pump(all, streams.Filter{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(all.runs, before) || !slices.Contains(all.runs, after) || all.runs[len(all.runs)-1] != after {
		t.Errorf("told of %v, want %s and %s", all.runs, before, after)
	}
	one := &toldStream{first: func() { r.remove(ctx, after) }}
	if err := pump(one, streams.Filter{RunID: after}); !machine.IsDeleted(err) {
		t.Errorf("the stream of a run that was deleted: %v", err)
	}
}
