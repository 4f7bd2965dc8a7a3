package store

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestMeasure: the figures are those of the rows, of all that was stored and deleted, also
// where a namespace has more than a page of rows.
func TestMeasure(t *testing.T) {
	t.Parallel()
	w, ctx := travelWorld(t), context.Background()
	putBlob(t, w.store, "u1", testTime, "large")
	for n := range 20 {
		w.live(runID(n + 30))
	}
	w.end(runID(30))
	w.delete(runID(30))
	for _, sub := range []machine.SubscriptionKey{{Kind: machine.SubscriptionConsumer, ID: "c"}, {Kind: machine.SubscriptionWebhook, ID: "w"}, {Kind: machine.SubscriptionPush, Run: runID(31), ID: "p"}} {
		if err := w.store.PutSubscription(ctx, machine.Subscription{SubscriptionKey: sub}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.store.NumberNamespaces(ctx, []string{"red"}); err != nil {
		t.Fatal(err)
	}
	report := w.check()
	got, err := w.store.Measure(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Namespaces) != 2 || got.Namespaces[1].Name != "red" || len(got.Namespaces[1].Rows) != 0 {
		t.Fatalf("namespaces: %+v", got.Namespaces)
	}
	s := got.Namespaces[0]
	runs := int64(0)
	for _, n := range s.Runs {
		runs += n
	}
	if runs != report.Runs || s.Entries != report.Entries || s.Records != report.Records || s.Deleted != 1 || s.Blobs != 1 || s.Consumers != 1 || s.Webhooks != 1 || s.Pushes != 1 {
		t.Errorf("%+v, a check counts %+v", s, report)
	}
	if s.Oldest == 0 || s.Newest < s.Oldest {
		t.Errorf("runs from %d to %d", s.Oldest, s.Newest)
	}
	keys, values, all := int64(0), int64(0), int64(0)
	for _, row := range rows(t, w.store) {
		keys, values, all = keys+int64(len(row.Key)), values+int64(len(row.Value)), all+1
	}
	for _, r := range append(got.Shared, s.Rows...) {
		keys, values, all = keys-r.Keys, values-r.Values, all-r.Rows
	}
	if keys != 0 || values != 0 || all != 0 {
		t.Errorf("%d rows with %d bytes of keys and %d of values are not among the kinds", all, keys, values)
	}
	stop, left := errors.New("stop"), 5
	if _, err := w.store.Measure(func() error {
		if left--; left < 0 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) {
		t.Errorf("a count that was stopped: %v", err)
	}
}
