package store

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/layout"
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

// allocated is what the files of a directory take on disk.
func allocated(t testing.TB, dir string) int64 {
	t.Helper()
	var n int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				n += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a compaction has deleted it
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDiskIsProportionalToWhatWasWritten: a run of 800 transitions that appends
// 2 KB of random bytes at each takes less than twice that, everything included.
func TestDiskIsProportionalToWhatWasWritten(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	b := startBatch(runID(1), "")
	mustCommit(t, s, b)
	const transitions, size = 800, 2048
	for range transitions {
		value := make([]byte, size)
		rand.Read(value)
		b = eventBatch(b.State, value)
		mustCommit(t, s, b)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	flatten(t, s.opts)
	ratio := float64(allocated(t, s.opts.Dir)) / (transitions * size)
	t.Logf("allocated / written = %.2f", ratio)
	if ratio > 2 {
		t.Errorf("allocated / written = %.2f", ratio)
	}
	again := openTemp(t, func(o *Options) { o.Dir = s.opts.Dir })
	if report, err := again.Check(t.Context(), nil); err != nil || report.Records != transitions+1 {
		t.Fatalf("%+v, %v", report, err)
	}
}

// TestKeysPerTransition: a transition with one artifact and an event id writes two keys, in short and in long runs. Every
// 16th transition also writes the head and the versions of the artifact, and every 256th a checkpoint.
func TestKeysPerTransition(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	for _, seq := range []uint64{2, 14, 15, 16, 100, 254, 255, 20_000} {
		w, err := s.Encode(eventBatch(&machine.State{RunID: runID(1), Seq: seq, TotalVisits: int(seq), Status: machine.Running}, []byte("value")))
		if err != nil {
			t.Fatal(err)
		}
		want := "jd"
		switch {
		case (seq+1)%layout.CheckpointEvery == 0:
			want = "jhkad"
		case (seq+1)%layout.HeadEvery == 0:
			want = "jhad"
		}
		kinds := ""
		for _, op := range w.Ops() {
			kinds += string(op.Key[:1])
		}
		if kinds != want || w.Bytes() == 0 {
			t.Errorf("after seq %d: %s, want %s", seq, kinds, want)
		}
	}
}

// flatten brings a closed store into its smallest form, as its own compactions do in
// time: all tables in one level, without what was overwritten.
func flatten(t *testing.T, opts Options) {
	t.Helper()
	dir, err := badgerengine.OpenOld(opts.directory())
	if err != nil {
		t.Fatal(err)
	}
	dir.Release(dir.LastKey())
	if err := errors.Join(dir.Badger().Flatten(1), dir.CloseFiles(), dir.Unlock()); err != nil {
		t.Fatal(err)
	}
}

// TestSizes: a store on disk has a size at once.
func TestSizes(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	if tree, log := w.store.Sizes(); tree <= 0 || log <= 0 {
		t.Errorf("tree %d, log %d bytes", tree, log)
	}
}
