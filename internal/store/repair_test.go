package store

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// repairWorld has rows of every kind that follows from entries.
func repairWorld(t *testing.T) *world {
	t.Helper()
	w := busyWorld(t)
	for range 2*layout.HeadEvery + 3 {
		w.do(runID(3), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{
			{Name: "report", Value: []byte("blob:sha256:" + string(bytes.Repeat([]byte("ab"), 32)))},
		}})
	}
	for n := range layout.CheckpointEvery {
		w.do(runID(1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte{byte('a' + n%7)}}}})
	}
	return w
}

// repair opens the store again and repairs it.
func (w *world) repair() check.Repair {
	w.t.Helper()
	dir := w.store.opts.Dir
	if err := w.store.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.store = openTemp(w.t, func(o *Options) { o.Dir, o.Repair = dir, true })
	done, err := w.store.Repair(context.Background(), w.graphs)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// mustEqual checks that the rows of the store are as before, byte for byte.
func mustEqual(t *testing.T, s *Store, want []layout.Op) {
	t.Helper()
	of := func(ops []layout.Op) []layout.Op {
		return slices.DeleteFunc(slices.Clone(ops), func(op layout.Op) bool {
			return op.Key[0] == layout.KindWatermark || bytes.Equal(op.Key, layout.GroupKey)
		})
	}
	got, want := of(rows(t, s)), of(want)
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i].Key, want[i].Key) || !bytes.Equal(got[i].Value, want[i].Value) {
			t.Fatalf("%s %q = %x, want %q = %x", layout.RowName(got[i].Key), got[i].Key, got[i].Value, want[i].Key, want[i].Value)
		}
	}
}

// TestRepairOfEachKindOfRow removes, changes and adds rows of each kind that follows from entries. After a
// repair, the rows are as before, byte for byte, and the store passes a check.
func TestRepairOfEachKindOfRow(t *testing.T) {
	t.Parallel()
	w := repairWorld(t)
	all := rows(t, w.store)
	for _, kind := range append(slices.Clone(check.RepairedKinds), layout.KindCursor) {
		of := slices.DeleteFunc(slices.Clone(all), func(op layout.Op) bool { return op.Key[0] != kind })
		if len(of) == 0 {
			t.Fatalf("no %s row in the world", layout.Kinds[kind].Row)
		}
		gone, other := of[len(of)/2], of[0]
		raw(t, w.store, layout.Op{Key: gone.Key, Delete: true})
		if !bytes.Equal(gone.Key, other.Key) {
			raw(t, w.store, layout.Op{Key: other.Key, Value: []byte("damaged")})
		}
		stray := bytes.Clone(gone.Key)
		stray[len(stray)-3] ^= 0x40
		raw(t, w.store, layout.Op{Key: stray, Value: codec.Mark})
		if _, err := w.store.Check(context.Background(), w.graphs); err == nil {
			t.Errorf("%s: the check finds nothing", layout.Kinds[kind].Row)
		}
		done := w.repair()
		if n := done.Rows[layout.Kinds[kind].Row]; n == nil || n.Made+n.Changed+n.Removed == 0 || len(done.Broken) > 0 {
			t.Errorf("%s: %+v, broken %v", layout.Kinds[kind].Row, n, done.Broken)
		}
		mustEqual(t, w.store, all)
		w.check()
	}
}

// TestRepairOfEverything: all rows that follow from entries are lost, except heads and cursors. A repair
// writes all of them again.
func TestRepairOfEverything(t *testing.T) {
	t.Parallel()
	w := repairWorld(t)
	all := rows(t, w.store)
	var ops []layout.Op
	for _, row := range all {
		if kind := row.Key[0]; kind != layout.KindHead && kind != layout.KindCursor && slices.Contains(check.RepairedKinds, kind) {
			ops = append(ops, layout.Op{Key: row.Key, Delete: true})
		}
	}
	raw(t, w.store, ops...)
	done := w.repair()
	if done.Runs != 3 || len(done.Broken) > 0 {
		t.Errorf("%+v", done)
	}
	mustEqual(t, w.store, all)
	again, err := w.store.Repair(context.Background(), w.graphs)
	if err != nil || len(again.Rows) > 0 {
		t.Errorf("repaired twice: %v, %v", again.Rows, err)
	}
}

// TestRepairLeavesBrokenRuns: a repair changes nothing of a run that has a damaged entry, and repairs the
// other runs.
func TestRepairLeavesBrokenRuns(t *testing.T) {
	t.Parallel()
	w := repairWorld(t)
	for _, row := range rows(t, w.store) {
		if row.Key[0] == layout.KindEntry && bytes.Contains(row.Key, []byte(runID(1))) {
			value := bytes.Clone(row.Value)
			value[len(value)-1] ^= 1
			raw(t, w.store, layout.Op{Key: row.Key, Value: value})
			break
		}
	}
	damaged := rows(t, w.store)
	raw(t, w.store, layout.Op{Key: layout.HeadKey(0, runID(3)), Delete: true})
	done := w.repair()
	if len(done.Broken) != 1 || done.Broken[0].Run != runID(1) || done.Broken[0].Seq != 1 || done.Runs != 2 {
		t.Errorf("%d runs, broken %v", done.Runs, done.Broken)
	}
	mustEqual(t, w.store, damaged)
	w.t.Logf("%v", done.Broken[0])
}

// TestRepairRollsNothingBack: the last entries of a run are lost, or all of them. A repair keeps the head and
// the used ids, which show the loss, and reports the run.
func TestRepairRollsNothingBack(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]int{"the last": -1, "all": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := repairWorld(t)
			var entries, tell []layout.Op
			for _, row := range rows(t, w.store) {
				switch {
				case !bytes.Contains(row.Key, []byte(runID(1))):
				case row.Key[0] == layout.KindEntry:
					entries = append(entries, layout.Op{Key: row.Key, Delete: true})
				case row.Key[0] == layout.KindHead || row.Key[0] == layout.KindRunID:
					tell = append(tell, row)
				}
			}
			if keep < 0 {
				keep = len(entries) - 1
			}
			raw(t, w.store, entries[keep:]...)
			done := w.repair()
			if !slices.ContainsFunc(done.Broken, func(f *check.Fault) bool { return f.Run == runID(1) && f.Row == "entry" }) {
				t.Errorf("broken: %v", done.Broken)
			}
			now := rows(t, w.store)
			for _, row := range tell {
				if !slices.ContainsFunc(now, func(op layout.Op) bool { return bytes.Equal(op.Key, row.Key) && bytes.Equal(op.Value, row.Value) }) {
					t.Errorf("the repair touched %q", row.Key)
				}
			}
		})
	}
}

// TestRepairOfWatermarks: a repair removes a watermark that is above a row of its queue, and keeps other
// watermarks.
func TestRepairOfWatermarks(t *testing.T) {
	t.Parallel()
	w := repairWorld(t)
	queue := layout.QueueID{Kind: layout.TimerQueue}
	raw(t, w.store, *layout.MarkOp(queue, 1<<62))
	if _, err := w.store.Check(context.Background(), w.graphs); err == nil {
		t.Fatal("the check finds nothing")
	}
	if done := w.repair(); done.Rows["watermark"] == nil {
		t.Errorf("%+v", done.Rows)
	}
	w.check()
	raw(t, w.store, *layout.MarkOp(queue, 1))
	if done := w.repair(); len(done.Rows) > 0 {
		t.Errorf("a sound watermark: %+v", done.Rows)
	}
}
