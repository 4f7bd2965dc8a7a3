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

// sameHead compares what a store tells of a run with what the machine made.
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

// behind is how many records a run has behind its stored head.
func (w *world) behind(run string) uint64 {
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

// TestHoleIsNoEnd: where an entry behind the stored head is missing and later ones are
// there, the run does not go on from the hole.
func TestHoleIsNoEnd(t *testing.T) {
	t.Parallel()
	w, run := newWorld(t, openTemp(t)), runID(1)
	w.live(run)
	for range 40 {
		w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("x")}}})
		if w.behind(run) == 3 {
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

// TestHeadBehindItsRun: a head is stored now and then, and what is told of a run is
// that of its last entry nevertheless: state, artifact versions, lists, the next commit;
// also by a store that was opened again in between.
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
		if most = max(most, w.behind(run)); n%7 == 0 {
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

// TestHeadIsStoredWhereRowsSaySo: where a run is found by rows, its stored head is the
// one that they follow from, without a replay.
func TestHeadIsStoredWhereRowsSaySo(t *testing.T) {
	t.Parallel()
	w, run := newWorld(t, openTemp(t)), runID(1)
	w.live(run)
	rest := func(what string) {
		t.Helper()
		if n := w.behind(run); n != 0 {
			t.Errorf("%s: %d records behind the stored head", what, n)
		}
	}
	w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("x")}}})
	if w.behind(run) == 0 {
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

// TestRunBehindItsHeadNeedsAReplay: a store that was not told how says so, and goes on
// with what needs none.
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

// TestOldHeadIsFound: a head that should have been replaced by a newer one is a fault,
// with and without a replay.
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
