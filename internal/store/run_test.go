package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// sameHead checks that the store returns the state of a run that the machine computed.
func (w *world) sameHead(run string) {
	w.t.Helper()
	want := w.runs[run]
	got, err := w.store.Head(context.Background(), 0, run)
	if err != nil {
		w.t.Fatalf("record %d: %v", want.Seq, err)
	}
	if string(codec.EncodeHead(got, got.PrevHash)) != string(codec.EncodeHead(want, want.PrevHash)) {
		w.t.Fatalf("record %d: head %+v, want %+v", want.Seq, got, want)
	}
	if !slices.Equal(got.Unlisted, want.Unlisted) {
		w.t.Fatalf("record %d: unlisted %+v, want %+v", want.Seq, got.Unlisted, want.Unlisted)
	}
}

// recordsAfterHead returns the number of records of a run after its stored head.
func (w *world) recordsAfterHead(run string) uint64 {
	w.t.Helper()
	var seq uint64
	err := w.store.view(func(txn *layout.Txn) (err error) {
		seq, err = layout.HeadSeq(txn, layout.HeadKey(0, run))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.runs[run].Seq - seq
}

// TestHoleIsNoEnd: an entry after the stored head is missing, and a later one exists. The run is damaged: it
// does not continue at the missing entry.
func TestHoleIsNoEnd(t *testing.T) {
	t.Parallel()
	w, run := newWorld(t, openTemp(t)), runID(1)
	w.live(run)
	for range 40 {
		w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("x")}}})
		if w.recordsAfterHead(run) == 3 {
			break
		}
	}
	st := w.runs[run]
	raw(t, w.store, layout.Op{Key: layout.EntryKey(0, run, st.Seq-1), Delete: true})
	var damage *layout.Damage
	if got, err := w.store.Head(context.Background(), 0, run); !errors.As(err, &damage) {
		t.Errorf("record %d with a hole before record %d: %v", got.Seq, st.Seq, err)
	}
}

// TestHeadBehindItsRun: the store stores the head of a run only from time to time. State, artifact versions,
// lists and the next commit are still those of the last entry, even after the store was opened again.
func TestHeadBehindItsRun(t *testing.T) {
	t.Parallel()
	w, ctx, run := newWorld(t, openTemp(t)), context.Background(), runID(1)
	w.live(run)
	var seqs []uint64
	most := uint64(0)
	for n := range 40 {
		st := w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{
			{Name: "report", Value: fmt.Appendf(nil, "%d", n)}, {Name: "plan", Value: []byte("{}")},
		}})
		seqs = append(seqs, st.Seq)
		if most = max(most, w.recordsAfterHead(run)); n%7 == 0 {
			w.store = reopen(t, w.store)
			w.store.ReplayWith(replayTest)
		}
		w.sameHead(run)
		for _, at := range []uint64{st.Seq, st.Seq - 3} {
			newest, err := w.store.ArtifactVersions(ctx, 0, run, "plan", at, true)
			if err != nil || len(newest) != 1 || newest[0].Seq > at || newest[0].Bytes == 0 {
				t.Fatalf("newest at %d: %+v, %v", at, newest, err)
			}
		}
	}
	if most != layout.HeadEvery-1 {
		t.Errorf("at most %d records were behind the stored head, want %d", most, layout.HeadEvery-1)
	}
	versions, err := w.store.ArtifactVersionsAfter(ctx, 0, run, "report", seqs[0]-1, seqs[len(seqs)-1])
	var got []uint64
	for _, v := range versions {
		got = append(got, v.Seq)
		if v.Mode != machine.Append {
			t.Errorf("version %+v", v)
		}
	}
	if err != nil || !slices.Equal(got, seqs) {
		t.Fatalf("versions %v, %v, want %v", got, err, seqs)
	}
	for _, state := range []string{"test", "plan"} {
		page, _, err := w.store.ListRuns(ctx, 0, machine.RunFilter{State: state}, "", 10)
		if want := state == w.runs[run].Current; err != nil || (len(page) == 1) != want || want && page[0].Seq != w.runs[run].Seq {
			t.Fatalf("list of runs in %s: %d, %v", state, len(page), err)
		}
	}
	w.check()
}

// TestHeadIsStoredWhereRowsSaySo: a commit that changes rows by which a run is found also stores the head, so
// that a reader of the rows needs no replay.
func TestHeadIsStoredWhereRowsSaySo(t *testing.T) {
	t.Parallel()
	w, run := newWorld(t, openTemp(t)), runID(1)
	w.live(run)
	rest := func(what string) {
		t.Helper()
		if n := w.recordsAfterHead(run); n != 0 {
			t.Errorf("%s: %d records behind the stored head", what, n)
		}
	}
	w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("x")}}})
	if w.recordsAfterHead(run) == 0 {
		t.Fatal("no record is behind the stored head: the test shows nothing")
	}
	w.do(run, machine.ResolveStep{Step: 2, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(`""`), Worker: "w"})
	rest("a step was answered")
	w.do(run, machine.Pause{})
	rest("paused")
	w.end(run)
	rest("ended")
	w.check()
}

// TestRunBehindItsHeadNeedsAReplay: a store without a replay function returns an error for a run whose head
// is old. It accepts work that needs no replay.
func TestRunBehindItsHeadNeedsAReplay(t *testing.T) {
	t.Parallel()
	w, run := newWorld(t, openTemp(t)), runID(1)
	w.live(run)
	w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("x")}}})
	w.store = reopen(t, w.store)
	w.store.replay.Store(nil)
	if _, err := w.store.Head(context.Background(), 0, run); !errors.Is(err, errNoReplay) {
		t.Fatal(err)
	}
	w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("y")}}})
	w.store.ReplayWith(replayTest)
	w.sameHead(run)
}

// TestOldHeadIsFound: a check finds a head that a newer one should have replaced, with and without a replay.
func TestOldHeadIsFound(t *testing.T) {
	t.Parallel()
	w, run := newWorld(t, openTemp(t)), runID(1)
	w.live(run)
	var old layout.Op
	for _, row := range rows(t, w.store) {
		if string(row.Key) == string(layout.HeadKey(0, run)) {
			old = row
		}
	}
	for range layout.HeadEvery {
		w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("x")}}})
	}
	w.check()
	raw(t, w.store, old)
	for _, graphs := range []check.Graphs{nil, w.graphs} {
		var fault *check.Fault
		if _, err := w.store.Check(context.Background(), graphs); !errors.As(err, &fault) || fault.Row != "head" {
			t.Errorf("check says %v", err)
		}
	}
}
