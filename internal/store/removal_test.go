package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

var asked = machine.Deleted{At: testTime + 1, By: "operator"}

// delete deletes a run of the world.
func (w *world) delete(run string) machine.Deleted {
	w.t.Helper()
	d, duplicate, err := w.store.DeleteRun(context.Background(), 0, run, asked)
	if err != nil || duplicate {
		w.t.Fatalf("delete %s: duplicate %v, %v", run, duplicate, err)
	}
	delete(w.runs, run)
	return d
}

// mustBeGone checks that no call and no row shows anything of a deleted run.
func mustBeGone(t *testing.T, s *Store, run string) {
	t.Helper()
	ctx, errs := context.Background(), map[string]error{}
	_, errs["head"] = s.Head(ctx, 0, run)
	_, errs["entries"] = s.Entries(ctx, 0, run, 1, machine.Page{})
	_, errs["entry"] = s.Entry(ctx, 0, run, 1)
	_, errs["versions"] = s.ArtifactVersions(ctx, 0, run, "report", 9, false)
	_, errs["messages"] = s.MessageRows(ctx, 0, run, "plan", 0, 1)
	errs["export"] = s.Export(ctx, 0, run, &bytes.Buffer{})
	_, errs["proof"] = s.Prove(ctx, 0, run, nil)
	for what, err := range errs {
		if !machine.IsDeleted(err) {
			t.Errorf("%s of a deleted run: %v", what, err)
		}
	}
	for _, row := range rows(t, s) {
		switch {
		case row.Key[0] == layout.KindDeleted || row.Key[0] == layout.KindCallerID:
		case bytes.Contains(row.Key, []byte(run)), bytes.Contains(row.Value, []byte(run)):
			t.Errorf("left of %s: a row %s, %q", run, layout.RowName(row.Key), row.Key)
		}
	}
}

// journalOf reads the journal of all runs. It returns the run of each cursor.
func journalOf(t *testing.T, s *Store) map[uint64]string {
	t.Helper()
	out := map[uint64]string{}
	for after := uint64(0); ; {
		entries, scanned, err := s.Journal(context.Background(), 0, after, machine.Page{Records: 3})
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			if tail, _ := s.Tail(context.Background(), 0); scanned != tail {
				t.Fatalf("read up to %d, the tail is %d", scanned, tail)
			}
			return out
		}
		for _, e := range entries {
			if e.Cursor <= after {
				t.Fatalf("cursor %d behind %d", e.Cursor, after)
			}
			out[e.Cursor], after = e.RunID, e.Cursor
		}
	}
}

// TestDeleteRun: the store keeps of a deleted run only the fact of its deletion. Other runs are unchanged.
func TestDeleteRun(t *testing.T) {
	t.Parallel()
	w, ctx := travelWorld(t), context.Background()
	other, gone := runID(1), runID(2)
	push := machine.SubscriptionKey{Kind: machine.SubscriptionPush, Run: gone, ID: "p"}
	if err := w.store.PutSubscription(ctx, machine.Subscription{SubscriptionKey: push, Owner: "me"}, nil); err != nil {
		t.Fatal(err)
	}
	w.store.CountRuns(ctx, 0, nil)
	before, journal, entries := w.check(), journalOf(t, w.store), entriesOf(t, w.store, other)
	if _, _, err := w.store.DeleteRun(ctx, 0, other, asked); reasonOf(err) != "RUN_NOT_ENDED" {
		t.Fatalf("a run that goes on: %v", err)
	}
	if _, _, err := w.store.DeleteRun(ctx, 0, "nobody", asked); !errors.Is(err, machine.ErrNoRun) || machine.IsDeleted(err) {
		t.Fatalf("a run that never was: %v", err)
	}
	last := w.runs[gone]
	d := w.delete(gone)
	if d.By != "operator" || d.Status != machine.Cancelled || d.Records != last.Seq || d.Hash == [32]byte{} || d.StartID == "" {
		t.Errorf("kept: %+v", d)
	}
	mustBeGone(t, w.store, gone)
	after := w.check()
	if after.Runs != before.Runs-1 || after.Deleted != 1 || after.Entries != before.Entries-int64(d.Commits) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	for cursor, run := range journal {
		if run == gone {
			delete(journal, cursor)
		}
	}
	if got := journalOf(t, w.store); fmt.Sprint(got) != fmt.Sprint(journal) {
		t.Errorf("the order of everything: %v, want %v", got, journal)
	}
	if got := entriesOf(t, w.store, other); len(got) != len(entries) || len(got) > 0 && !bytes.Equal(got[0].Value, entries[0].Value) {
		t.Error("another run is not what it was")
	}
	if n, err := w.store.CountRuns(ctx, 0, []machine.Status{machine.Cancelled}); n != 0 || err != nil {
		t.Errorf("%d cancelled runs, %v", n, err)
	}
	// The id of the start stays used. A repeated deletion returns the first one.
	id, found, err := w.store.FindRequestID(ctx, 0, machine.Dedupe{Scope: machine.PerPrincipal, Kind: d.StartKind, Principal: d.Starter, ID: d.StartID})
	if err != nil || !found || id.RunID != gone {
		t.Errorf("its id: %+v, %v, %v", id, found, err)
	}
	again, duplicate, err := w.store.DeleteRun(ctx, 0, gone, machine.Deleted{At: 1, By: "another"})
	if err != nil || !duplicate || again != d {
		t.Errorf("again: %+v, %v, %v", again, duplicate, err)
	}
	if err := w.store.PutSubscription(ctx, machine.Subscription{SubscriptionKey: push}, nil); !errors.Is(err, machine.ErrSubscriptionChanged) {
		t.Errorf("a subscription of a deleted run: %v", err)
	}
}

func reasonOf(err error) string {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return refusal.Reason
	}
	return ""
}

// TestDeletedLast: a store whose last acknowledged entry was deleted can be opened and accepts new work.
func TestDeletedLast(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	w.live(runID(7))
	w.end(runID(7))
	tail, _ := w.store.Tail(context.Background(), 0)
	w.delete(runID(7))
	for range 2 {
		w.store = openTemp(t, func(o *Options) { o.Dir = copyStore(t, w.store) })
		if got, _ := w.store.Tail(context.Background(), 0); got != tail {
			t.Fatalf("the tail is %d, it was %d", got, tail)
		}
		w.check()
		mustBeGone(t, w.store, runID(7))
	}
	w.live(runID(8))
	w.check()
}

// long makes a run whose removal takes several commits, and ends it.
func (w *world) long(run string) {
	w.t.Helper()
	w.live(run)
	for n := range 250 {
		w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte{byte('a' + n%7)}}}})
	}
	w.end(run)
}

// TestDeleteRunIsEndedAfterACrash: a crash at any commit of a removal leaves the run unchanged, or the next
// start of the store completes the removal.
func TestDeleteRunIsEndedAfterACrash(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	s := openTemp(t, func(o *Options) {
		o.Dir = filepath.Join(t.TempDir(), "db")
	})
	w := newWorld(t, s)
	w.live(runID(2))
	w.long(runID(1))
	seams := 0
	for at := int64(1); ; at++ {
		crashing := openTemp(t, func(o *Options) {
			o.Dir = copyStore(t, s)
			o.Hooks.BeforeCommit = func(Group) error {
				if left.Load() > 0 && left.Add(-1) == 0 {
					return errPower
				}
				return nil
			}
		})
		crashing.remover.Rows = 100
		left.Store(at)
		_, _, err := crashing.DeleteRun(context.Background(), 0, runID(1), asked)
		if err == nil {
			break
		}
		if !errors.Is(err, machine.ErrIndeterminate) {
			t.Fatalf("cut short: %v", err)
		}
		seams++
		w.store = openTemp(t, func(o *Options) { o.Dir = copyStore(t, crashing) })
		if at > 1 {
			mustBeGone(t, w.store, runID(1))
		} else if _, err := w.store.Head(context.Background(), 0, runID(1)); err != nil {
			t.Errorf("it had not begun: %v", err)
		}
		w.check()
	}
	if seams < 3 {
		t.Errorf("the removal has %d commits, the test needs more", seams)
	}
}

// TestCheckWhileARunIsRemoved: between the commits of a removal, the store passes a check, and the run is
// deleted for all readers.
func TestCheckWhileARunIsRemoved(t *testing.T) {
	t.Parallel()
	pause, held := make(chan struct{}), make(chan struct{})
	var left atomic.Int64
	w := newWorld(t, openTemp(t, func(o *Options) {
		o.Hooks.BeforeCommit = func(Group) error {
			if left.Load() > 0 && left.Add(-1) == 0 {
				close(held)
				<-pause
			}
			return nil
		}
	}))
	w.long(runID(1))
	w.store.remover.Rows = 100
	left.Store(3)
	done := make(chan error, 1)
	go func() {
		_, _, err := w.store.DeleteRun(context.Background(), 0, runID(1), asked)
		done <- err
	}()
	<-held
	if count(t, w.store, layout.KindDrop) != 1 || count(t, w.store, layout.KindEntry) == 0 {
		t.Error("the removal is not in its middle")
	}
	w.check()
	if _, err := w.store.Head(context.Background(), 0, runID(1)); !machine.IsDeleted(err) {
		t.Errorf("in the middle: %v", err)
	}
	if _, err := w.store.Entries(context.Background(), 0, runID(1), 1, machine.Page{}); !machine.IsDeleted(err) {
		t.Errorf("in the middle: %v", err)
	}
	journalOf(t, w.store)
	close(pause)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, w.store, runID(1))
	w.check()
	if n := count(t, w.store, layout.KindCursor); n > 2 {
		t.Errorf("%d rows of cursors for no entries", n)
	}
}

// TestImportAfterDelete: a deleted run can be imported from an earlier export, and deleted again. The id of
// its start stays used.
func TestImportAfterDelete(t *testing.T) {
	t.Parallel()
	w, ctx, run := travelWorld(t), context.Background(), runID(2)
	file := w.export(run)
	first := w.delete(run)
	x, err := check.Unpack(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	row, err := w.store.Pack(ctx, 0, x.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.store.Import(ctx, 0, x, row, w.graph, testTime); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Discard(x); err != nil {
		t.Fatal(err)
	}
	if st, err := w.store.Head(ctx, 0, run); err != nil || !st.Imported || st.PrevHash != first.Hash {
		t.Fatalf("imported: %+v, %v", st, err)
	}
	w.check()
	again := w.delete(run)
	if again.StartID != first.StartID || again.Hash != first.Hash || again.Commits != first.Commits {
		t.Errorf("kept %+v, before %+v", again, first)
	}
	mustBeGone(t, w.store, run)
	w.check()
}

// TestForgetDeleted: after the retention time, the store keeps nothing of a deleted run, and its id can be
// used again.
func TestForgetDeleted(t *testing.T) {
	t.Parallel()
	w, ctx := travelWorld(t), context.Background()
	d := w.delete(runID(2))
	if n, err := w.store.ForgetDeleted(ctx, 0, d.At); n != 0 || err != nil {
		t.Fatalf("too early: %d, %v", n, err)
	}
	if n, err := w.store.ForgetDeleted(ctx, 0, d.At+1); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	start, _ := d.Start()
	if _, found, err := w.store.FindRequestID(ctx, 0, start); found || err != nil {
		t.Errorf("its id: %v, %v", found, err)
	}
	if _, err := w.store.Head(ctx, 0, runID(2)); !errors.Is(err, machine.ErrNoRun) || machine.IsDeleted(err) {
		t.Errorf("forgotten: %v", err)
	}
	w.check()
}

// TestRepairKnowsDeletedRuns: a repair writes lost rows of cursors again, with gaps for the deleted runs.
// Used ids stay used.
func TestRepairKnowsDeletedRuns(t *testing.T) {
	t.Parallel()
	w := repairWorld(t)
	w.live(runID(5))
	w.live(runID(6))
	w.end(runID(5))
	w.live(runID(7))
	w.delete(runID(5))
	for _, row := range rows(t, w.store) {
		if row.Key[0] == layout.KindCursor {
			raw(t, w.store, layout.Op{Key: row.Key, Value: []byte("damaged")})
		}
	}
	ids := count(t, w.store, layout.KindCallerID)
	if done := w.repair(); len(done.Broken) > 0 {
		t.Errorf("broken: %v", done.Broken)
	}
	w.check()
	if n := count(t, w.store, layout.KindCallerID); n != ids {
		t.Errorf("%d ids of principals, there were %d", n, ids)
	}
	mustBeGone(t, w.store, runID(5))
}

// TestRepairOfARunThatIsBeingRemoved: a run is being removed, and a row of cursors is lost. The store can be
// repaired, and the next start completes the removal.
func TestRepairOfARunThatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	w.live(runID(2))
	w.long(runID(1))
	w.live(runID(3))
	cursors := slices.DeleteFunc(rows(t, w.store), func(op layout.Op) bool { return op.Key[0] != layout.KindCursor })
	raw(t, w.store, layout.Op{Key: cursors[len(cursors)-50].Key, Delete: true})
	w.store.remover.Rows = 100
	if _, _, err := w.store.DeleteRun(context.Background(), 0, runID(1), asked); !errors.Is(err, layout.ErrDamaged) {
		t.Fatalf("the removal gets by without the row: %v", err)
	}
	if count(t, w.store, layout.KindDrop) != 1 || count(t, w.store, layout.KindEntry) == 0 {
		t.Fatal("the removal is not in its middle")
	}
	delete(w.runs, runID(1))
	if done := w.repair(); len(done.Broken) > 0 || done.Runs != 2 || done.Rows["cursor"] == nil || done.Rows["cursor"].Made == 0 {
		t.Errorf("repaired: %+v", done)
	}
	w.check()
	w.store = openTemp(t, func(o *Options) { o.Dir = copyStore(t, w.store) })
	mustBeGone(t, w.store, runID(1))
	w.check()
}

// TestDeletesAtRandom deletes runs in any order, between commits of other runs and with restarts. The journal
// contains exactly the entries that exist, in few rows, and the store passes a check.
func TestDeletesAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		w := newWorld(t, openTemp(t))
		var ended []string
		for n := range 60 {
			run := runID(n + 1)
			switch n % 4 {
			case 0:
				w.live(run)
			default:
				w.start(run)
			}
			if rnd.IntN(3) > 0 {
				w.end(run)
				ended = append(ended, run)
			}
			if len(ended) > 0 && rnd.IntN(2) == 0 {
				i := rnd.IntN(len(ended))
				w.delete(ended[i])
				ended = slices.Delete(ended, i, i+1)
			}
			if n%20 == 19 {
				w.store = openTemp(t, func(o *Options) { o.Dir = copyStore(t, w.store) })
			}
		}
		report := w.check()
		if int(report.Runs) != len(w.runs) {
			t.Errorf("seed %d: %d runs, want %d", seed, report.Runs, len(w.runs))
		}
		if got := len(journalOf(t, w.store)); got != int(report.Entries) {
			t.Errorf("seed %d: the order of everything has %d entries, the runs %d", seed, got, report.Entries)
		}
		if n := count(t, w.store, layout.KindCursor); n > 2*int(report.Entries)+2 {
			t.Errorf("seed %d: %d rows of cursors for %d entries", seed, n, report.Entries)
		}
	}
}

// TestGapsOfARow: consecutive gaps in a row need the space of one. A row with too many gaps is refused.
func TestGapsOfARow(t *testing.T) {
	t.Parallel()
	places := make([]codec.EntryRef, codec.MostGaps)
	places[7] = codec.EntryRef{Run: "a", First: 3}
	value := codec.EncodeEntryRefs(places)
	got, err := codec.DecodeEntryRefs(value)
	if err != nil || !slices.Equal(got, places) || len(value) > 32 {
		t.Errorf("%d places in %d bytes, %v", len(got), len(value), err)
	}
	if _, err := codec.DecodeEntryRefs(codec.EncodeEntryRefs(make([]codec.EntryRef, codec.MostGaps+1))); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("too many: %v", err)
	}
}

// TestUntold: a cancellation that was not sent is found for its own run only, and only while its row exists.
func TestUntold(t *testing.T) {
	t.Parallel()
	w, ctx := travelWorld(t), context.Background()
	row := machine.OutboxRow{Kind: machine.OutboxCancel, Due: testTime, RunID: runID(2), Step: 1, Attempt: 1}
	raw(t, w.store, layout.Op{Key: layout.OutboxKey(nil, 0, &row), Value: codec.Mark})
	for run, want := range map[string]bool{runID(1): false, runID(2): true} {
		if got, err := w.store.HasUnconfirmedCancel(ctx, 0, run); got != want || err != nil {
			t.Errorf("%s: %v, %v", run, got, err)
		}
	}
	if err := w.store.DropOutbox(ctx, row); err != nil {
		t.Fatal(err)
	}
	if got, err := w.store.HasUnconfirmedCancel(ctx, 0, runID(2)); got || err != nil {
		t.Errorf("told: %v, %v", got, err)
	}
}

// TestRunBytes: the size of a run is at least the size of its values. The size of a deleted run is zero.
func TestRunBytes(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t, openTemp(t)), context.Background()
	w.fill(1, 1, 4<<10, 20<<10, 20<<10)
	w.fill(2, 1, 1<<10)
	if n, err := w.store.RunBytes(ctx, 0, runID(1)); n < 44<<10 || n > 2*44<<10 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	w.delete(runID(1))
	if n, err := w.store.RunBytes(ctx, 0, runID(1)); n != 0 || err != nil {
		t.Errorf("deleted: %d bytes, %v", n, err)
	}
}

// TestDeleteWhoseCallerGoes: the caller stops waiting while its removal is being stored. The removal is
// completed: no rows of the run are left, and the next removal keeps the gaps of this one in the rows of
// cursors. If the caller stops before the removal begins, the run stays.
func TestDeleteWhoseCallerGoes(t *testing.T) {
	t.Parallel()
	var cancel atomic.Pointer[context.CancelFunc]
	w := newWorld(t, openTemp(t, func(o *Options) {
		o.Hooks.BeforeCommit = func(Group) error {
			if give := cancel.Swap(nil); give != nil {
				(*give)()
			}
			return nil
		}
	}))
	w.long(runID(1))
	w.live(runID(2))
	w.end(runID(2))
	w.store.remover.Rows = 100
	for n := range 2 {
		ctx, give := context.WithCancel(context.Background())
		cancel.Store(&give)
		if _, _, err := w.store.DeleteRun(ctx, 0, runID(n+1), asked); err != nil {
			t.Fatalf("begun, and given up: %v", err)
		}
		delete(w.runs, runID(n+1))
		mustBeGone(t, w.store, runID(n+1))
	}
	w.check()
	w.live(runID(3))
	w.end(runID(3))
	ctx, give := context.WithCancel(context.Background())
	give()
	if _, _, err := w.store.DeleteRun(ctx, 0, runID(3), asked); !errors.Is(err, context.Canceled) {
		t.Errorf("given up before: %v", err)
	}
	if _, err := w.store.Head(context.Background(), 0, runID(3)); err != nil {
		t.Errorf("given up before, and begun: %v", err)
	}
}

// TestDeleteOnALowDisk: when new work is refused because space is low, removals are accepted as long as
// tables can be written, and make space.
func TestDeleteOnALowDisk(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(2 << 30)
	w := newWorld(t, openTemp(t, func(o *Options) {
		o.MinFree, o.FreeSpace = 1<<30, func(string) (int64, error) { return free.Load(), nil }
	}))
	w.graph.Erasable = true
	w.long(runID(1))
	w.live(runID(2))
	w.end(runID(2))
	ctx := context.Background()
	old := machine.Subscription{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "old"}}
	if err := w.store.PutSubscription(ctx, old, nil); err != nil {
		t.Fatal(err)
	}
	free.Store(512 << 20)
	waitFor(t, "new work is refused", func() bool {
		return reasonOf(w.store.PutSubscription(context.Background(), machine.Subscription{SubscriptionKey: machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "w"}}, nil)) == "DISK_LOW"
	})
	w.store.remover.Rows = 100
	w.delete(runID(1))
	mustBeGone(t, w.store, runID(1))
	if err := w.store.DropSubscription(ctx, old.SubscriptionKey); err != nil {
		t.Errorf("with its letters: %v", err)
	}
	if err := w.store.DiscardDeadLetter(ctx, old.SubscriptionKey, 1); err != nil {
		t.Errorf("a letter: %v", err)
	}
	if n, err := w.store.ForgetDeleted(ctx, 0, math.MaxInt64); n != 1 || err != nil {
		t.Errorf("what was deleted: %d, %v", n, err)
	}
	if err := w.store.CheckRemovalSpace(); err != nil {
		t.Errorf("removals are taken: %v", err)
	}
	free.Store(dirOf(w.store).MinTableSpace())
	if err := w.store.CheckRemovalSpace(); reasonOf(err) != "DISK_LOW" {
		t.Errorf("removals without room for tables: %v", err)
	}
	if _, _, err := w.store.DeleteRun(context.Background(), 0, runID(2), asked); reasonOf(err) != "DISK_LOW" {
		t.Errorf("without room for tables: %v", err)
	}
	free.Store(2 << 30)
	w.check()
}
