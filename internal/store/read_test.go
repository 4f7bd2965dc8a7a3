package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

func TestKeysSortAsTheirNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune{0, 1, 'a', 'b', 'ÿ'}))
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		ka, kb := layout.AppendName(nil, a), layout.AppendName(nil, b)
		if bytes.Compare(ka, kb) != bytes.Compare([]byte(a), []byte(b)) {
			t.Fatalf("%q and %q sort otherwise as keys", a, b)
		}
		if a != b && bytes.HasPrefix(kb, ka) {
			t.Fatalf("%q is the beginning of %q", ka, kb)
		}
		got, rest, ok := layout.CutName(append(bytes.Clone(ka), kb...))
		if !ok || got != a || !bytes.Equal(rest, kb) {
			t.Fatalf("%q reads back as %q, %v", a, got, ok)
		}
	})
	for _, bad := range []string{"", "a", "a\x00", "a\x00\x02b\x00\x01", "\x00\xff"} {
		if s, _, ok := layout.CutName([]byte(bad)); ok {
			t.Errorf("%q reads as %q", bad, s)
		}
	}
}

func TestEntriesFromAnywhere(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t, openTemp(t)), context.Background()
	w.live(runID(1))
	all, err := w.store.Entries(ctx, 0, runID(1), 0, machine.Page{})
	if err != nil || len(all) < 5 || len(all[2].Records) < 2 {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	last := w.runs[runID(1)].Seq
	for seq := uint64(1); seq <= last; seq++ {
		i := slices.IndexFunc(all, func(e machine.Entry) bool { return seq < e.First+uint64(len(e.Records)) })
		got, err := w.store.Entries(ctx, 0, runID(1), seq, machine.Page{})
		if err != nil || len(got) != len(all)-i || got[0].First != all[i].First {
			t.Fatalf("from %d: %d entries, %v", seq, len(got), err)
		}
		e, err := w.store.Entry(ctx, 0, runID(1), seq)
		if err != nil || e.First != all[i].First || e.Hash != all[i].Hash {
			t.Fatalf("entry %d: %+v, %v", seq, e, err)
		}
	}
	if got, err := w.store.Entries(ctx, 0, runID(1), last+1, machine.Page{}); err != nil || len(got) != 0 {
		t.Fatalf("after the end: %d, %v", len(got), err)
	}
	for _, seq := range []uint64{0, last + 1} {
		if _, err := w.store.Entry(ctx, 0, runID(1), seq); !errors.Is(err, machine.ErrNoRecord) {
			t.Fatalf("entry %d: %v", seq, err)
		}
	}
	if _, err := w.store.Entry(ctx, 0, "nobody", 1); !errors.Is(err, machine.ErrNoRecord) {
		t.Fatal(err)
	}
	if _, err := w.store.Head(ctx, 0, "nobody"); !errors.Is(err, machine.ErrNoRun) {
		t.Fatal(err)
	}
	if _, err := w.store.Head(ctx, 1, runID(1)); !errors.Is(err, machine.ErrNoRun) {
		t.Fatalf("another namespace sees the run: %v", err)
	}
}

// TestPagesAreBounded by entries and bytes, at least one entry each.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	b := startBatch(runID(1), "")
	mustCommit(t, s, b)
	for range 299 {
		b = eventBatch(b.State, make([]byte, 100))
		mustCommit(t, s, b)
	}
	for _, c := range []struct {
		page        machine.Page
		least, most int
	}{
		{machine.Page{}, pageRecords, pageRecords},
		{machine.Page{Records: 10_000, Bytes: 1 << 30}, pageRecords, pageRecords},
		{machine.Page{Records: 3}, 3, 3},
		{machine.Page{Bytes: 1}, 1, 1},
		{machine.Page{Bytes: 2000}, 4, 10},
	} {
		entries, err := s.Entries(ctx, 0, runID(1), 1, c.page)
		if err != nil || len(entries) < c.least || len(entries) > c.most {
			t.Errorf("entries %+v: %d, %v", c.page, len(entries), err)
		}
		entries, scanned, err := s.Journal(ctx, 0, 0, c.page)
		if err != nil || len(entries) < c.least || len(entries) > c.most || scanned != uint64(len(entries)) {
			t.Errorf("journal %+v: %d up to %d, %v", c.page, len(entries), scanned, err)
		}
	}
}

// TestJournalIsEverythingInOrder while many runs write: followers see each
// cursor once, dense, and each run's entries in their order.
func TestJournalIsEverythingInOrder(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	const runs, each = 8, 40
	var wg sync.WaitGroup
	for n := range runs {
		wg.Go(func() {
			b := startBatch(runID(n), "")
			mustCommit(t, s, b)
			for range each - 1 {
				b = eventBatch(b.State, nil)
				mustCommit(t, s, b)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			after, last := uint64(0), make(map[string]machine.Entry)
			for after < runs*each {
				entries, scanned, err := s.Journal(ctx, 0, after, machine.Page{Records: 7})
				if err != nil {
					t.Error(err)
					return
				}
				for i, e := range entries {
					before := last[e.RunID]
					if e.Cursor != after+uint64(i)+1 || e.PrevHash != before.Hash || e.First != before.First+uint64(len(before.Records)) && e.First != 1 {
						t.Errorf("cursor %d after %d: %+v", e.Cursor, after, e)
					}
					last[e.RunID] = e
				}
				after = scanned
			}
		})
	}
	wg.Wait()
	if tail, err := s.Tail(ctx, 0); err != nil || tail != runs*each {
		t.Fatalf("tail %d, %v", tail, err)
	}
	if entries, scanned, err := s.Journal(ctx, 0, runs*each+5, machine.Page{}); err != nil || len(entries) != 0 || scanned != runs*each+5 {
		t.Fatalf("beyond the tail: %d, %d, %v", len(entries), scanned, err)
	}
	if tail, err := s.Tail(ctx, 9); err != nil || tail != 0 {
		t.Fatalf("an empty namespace: %d, %v", tail, err)
	}
}

func TestArtifactVersionsAndMessages(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t, openTemp(t)), context.Background()
	w.live(runID(1))
	last := w.runs[runID(1)].Seq
	all, err := w.store.ArtifactVersions(ctx, 0, runID(1), "report", last, false)
	if err != nil || len(all) != 2 || all[0].Seq >= all[1].Seq || all[0].Mode != machine.Append || all[0].Bytes != int64(len("3 passed")) {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, c := range []struct {
		name   string
		at     uint64
		newest bool
		want   []machine.ArtifactVersion
	}{
		{"report", last, true, all[1:]}, {"report", all[1].Seq - 1, true, all[:1]}, {"report", all[1].Seq - 1, false, all[:1]},
		{"report", all[0].Seq - 1, true, nil}, {"repor", last, false, nil}, {"nothing", last, true, nil},
	} {
		if got, err := w.store.ArtifactVersions(ctx, 0, runID(1), c.name, c.at, c.newest); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	messages, err := w.store.MessageRows(ctx, 0, runID(1), "plan", 0, 100)
	if err != nil || len(messages) != 2 || messages[0].N != 0 || messages[1].N != 1 {
		t.Fatalf("%+v, %v", messages, err)
	}
	if got, err := w.store.MessageRows(ctx, 0, runID(1), "plan", 1, 2); err != nil || !slices.Equal(got, messages[1:2]) {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestCheckpointsBoundTheReplay: from the newest checkpoint at or before any seq
// the rest of the way is short, and leads to the same state.
func TestCheckpointsBoundTheReplay(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t, openTemp(t)), context.Background()
	st := w.start(runID(1))
	states := map[uint64]*machine.State{st.Seq: st}
	for st.Seq < 3*layout.CheckpointEvery {
		st = w.do(runID(1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "plan", Value: []byte(`{}`)}}})
		states[st.Seq] = st
	}
	for seq, want := range states {
		from, err := w.store.Checkpoint(ctx, 0, runID(1), seq)
		if err != nil {
			t.Fatal(err)
		}
		next := uint64(1)
		if from != nil {
			next = from.Seq + 1
		}
		if seq+1-next > layout.CheckpointEvery {
			t.Fatalf("seq %d is replayed from %d", seq, next)
		}
		if seq%100 != 0 {
			continue
		}
		entries, err := w.store.Entries(ctx, 0, runID(1), next, machine.Page{})
		if err != nil {
			t.Fatal(err)
		}
		entries = slices.DeleteFunc(entries, func(e machine.Entry) bool { return e.First > seq })
		got, err := rules.ReplayFrom(w.graph, from, entries)
		if err != nil || got.Seq != want.Seq || got.PrevHash != want.PrevHash || fmt.Sprint(got.Artifacts) != fmt.Sprint(want.Artifacts) {
			t.Fatalf("seq %d: %+v, %v; want %+v", seq, got, err, want)
		}
	}
	if report := w.check(); report.Checkpoints != 3 {
		t.Fatalf("%+v", report)
	}
	if none, err := w.store.Checkpoint(ctx, 0, "nobody", 5); none != nil || err != nil {
		t.Fatal(none, err)
	}
}

// TestReadsDoNotWaitForASync: while a group is being synced, reads are answered
// from the one before.
func TestReadsDoNotWaitForASync(t *testing.T) {
	t.Parallel()
	s, st := newStalledStore(t)
	b := startBatch(runID(1), "")
	mustCommit(t, s, b)
	done := make(chan struct{})
	st.hold(func() {
		defer close(done)
		mustCommit(t, s, eventBatch(b.State, nil))
	})
	head, err := s.Head(context.Background(), 0, runID(1))
	if err != nil || head.Seq != 1 {
		t.Fatalf("%+v, %v", head, err)
	}
	st.release()
	<-done
	if head, err := s.Head(context.Background(), 0, runID(1)); err != nil || head.Seq != 2 {
		t.Fatalf("%+v, %v", head, err)
	}
}

// TestDiscardNeverPassesARead: a version that a read still needs is not
// released to compaction.
func TestDiscardNeverPassesARead(t *testing.T) {
	t.Parallel()
	r := newReadTimestamps(5, nil)
	ts, err := r.begin()
	if err != nil || ts != 5 {
		t.Fatal(ts, err)
	}
	r.publish(9, nil)
	if r.oldestNeeded() != 5 || r.durable() != 9 {
		t.Fatalf("oldest %d, durable %d", r.oldestNeeded(), r.durable())
	}
	r.end(ts)
	if r.oldestNeeded() != 9 {
		t.Fatalf("oldest %d", r.oldestNeeded())
	}
}

func TestReadsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	w.live(runID(1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, run := w.store, runID(1)
	errs := make(map[string]error)
	_, errs["head"] = s.Head(ctx, 0, run)
	_, errs["entries"] = s.Entries(ctx, 0, run, 1, machine.Page{})
	_, errs["entry"] = s.Entry(ctx, 0, run, 1)
	_, _, errs["journal"] = s.Journal(ctx, 0, 0, machine.Page{})
	_, errs["tail"] = s.Tail(ctx, 0)
	_, _, errs["consumed"] = s.FindRequestID(ctx, 0, machine.Dedupe{})
	_, errs["versions"] = s.ArtifactVersions(ctx, 0, run, "plan", 99, false)
	_, errs["messages"] = s.MessageRows(ctx, 0, run, "plan", 0, 9)
	_, _, errs["timers"] = s.DueTimers(ctx, 1<<62, 9)
	_, errs["ready"] = s.ReadyRuns(ctx, 0, "", 9)
	_, errs["outbox"] = s.Outbox(ctx, machine.OutboxStep, 1<<62, 9)
	_, _, errs["list"] = s.ListRuns(ctx, 0, machine.RunFilter{}, "", 9)
	_, _, errs["packs"] = s.ListPacks(ctx, 0, "", 9)
	for what, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
