package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

func busyWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	w := newWorld(t, openTemp(t, change...))
	w.live(runID(1))
	w.live(runID(2))
	w.end(runID(2))
	w.start(runID(3))
	for _, version := range []string{"1.0.0", "1.1.0"} {
		if _, err := w.store.PutPack(context.Background(), 0, putOf("codegen", version, true)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func TestCheckCountsWhatIsInOrder(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	got := w.check()
	if got.Runs != 3 || got.Timers == 0 || got.Outbox == 0 || got.Ready == 0 || got.Indexes == 0 || got.Artifacts == 0 ||
		got.Messages == 0 || got.IDs == 0 || got.Packs != 2 {
		t.Fatalf("a kind of row is missing from the world: %+v", got)
	}
	withoutReplay, err := w.store.Check(context.Background(), nil)
	if err != nil || withoutReplay != got {
		t.Fatalf("without replay %+v, %v; with %+v", withoutReplay, err, got)
	}
}

// rows copies the whole store.
func rows(t *testing.T, s *Store) []layout.Op {
	t.Helper()
	var ops []layout.Op
	err := s.view(func(txn *layout.Txn) error {
		c := &check.Checker{Ended: context.Background().Err, Txn: txn}
		return c.Each(nil, func(key, value []byte) error {
			ops = append(ops, layout.Op{Key: key, Value: value})
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

func raw(t *testing.T, s *Store, ops ...layout.Op) {
	t.Helper()
	for i := range ops {
		ops[i].Key, ops[i].Value = bytes.Clone(ops[i].Key), bytes.Clone(ops[i].Value)
	}
	if err := s.write(context.Background(), &Writes{entry: -1, ops: ops}); err != nil {
		t.Fatal(err)
	}
}

// TestCheckFindsEveryLostRow deletes each row in turn: the check must miss it.
func TestCheckFindsEveryLostRow(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	for _, row := range rows(t, w.store) {
		kind := row.Key[0]
		if kind == layout.KindFormat || kind == layout.KindWatermark {
			continue
		}
		// Nothing else says since when rollups are complete.
		if kind == layout.KindUsage && layout.IsUsageSince(row.Key) {
			continue
		}
		// The bare id of a pack may be unset, and a name may go with it.
		if kind == layout.KindPackBare || kind == layout.KindPackName {
			continue
		}
		raw(t, w.store, layout.Op{Key: row.Key, Delete: true})
		var fault *check.Fault
		if _, err := w.store.Check(context.Background(), w.graphs); !errors.As(err, &fault) {
			t.Errorf("%s row %q deleted: %v", layout.Kinds[kind].Row, row.Key, err)
		}
		raw(t, w.store, row)
	}
	w.check()
}

// TestCheckFindsEveryChangedByte changes the last byte of each value, and one in
// the middle.
func TestCheckFindsEveryChangedByte(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	for _, row := range rows(t, w.store) {
		switch row.Key[0] {
		case layout.KindUsage:
			if layout.IsUsageSince(row.Key) {
				continue
			}
		case layout.KindFormat, layout.KindWatermark, layout.KindPackName, layout.KindPackRef, layout.KindPackBare:
			continue
		}
		for _, at := range []int{len(row.Value) - 1, len(row.Value) / 2} {
			if row.Key[0] == layout.KindPack && at == len(row.Value)-1 {
				continue // the source as it was registered has no hash
			}
			changed := bytes.Clone(row.Value)
			changed[at] ^= 1
			raw(t, w.store, layout.Op{Key: row.Key, Value: changed})
			if _, err := w.store.Check(context.Background(), w.graphs); err == nil {
				t.Errorf("%s row %q: byte %d of %x changed and not found", layout.Kinds[row.Key[0]].Row, row.Key, at, row.Value)
			}
		}
		raw(t, w.store, row)
	}
	w.check()
}

// TestCheckFindsOrphans adds one row of each kind that nothing implies.
func TestCheckFindsOrphans(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	run, ghost := runID(1), runID(99)
	for name, op := range map[string]layout.Op{
		"entry of no run":      {Key: layout.EntryKey(0, ghost, 1), Value: codec.Mark},
		"artifact":             {Key: layout.Number(layout.ArtifactPrefix(nil, 0, run, "plan"), 3), Value: codec.Mark},
		"artifact of no run":   {Key: layout.Number(layout.ArtifactPrefix(nil, 0, ghost, "plan"), 3), Value: codec.Mark},
		"message":              {Key: layout.Number(layout.MessagePrefix(nil, 0, run, "plan"), 77), Value: codec.EncodeNumber(1)},
		"id":                   {Key: layout.DedupeKey(nil, 0, &machine.Dedupe{Kind: machine.CmdPause, RunID: run, ID: "x"}), Value: codec.EncodeDedupe(&machine.Dedupe{First: 1, Last: 1})},
		"caller's id":          {Key: layout.DedupeKey(nil, 0, &machine.Dedupe{Scope: machine.PerPrincipal, Kind: machine.CmdStart, Principal: "p", ID: "x"}), Value: codec.EncodeDedupe(&machine.Dedupe{Scope: machine.PerPrincipal, RunID: run, First: 1, Last: 1})},
		"timer":                {Key: layout.TimerKey(nil, 0, &machine.Timer{Due: testTime, RunID: run, Kind: machine.TimerRetry}), Value: codec.EncodeNumber(0)},
		"timer of no run":      {Key: layout.TimerKey(nil, 0, &machine.Timer{Due: testTime, RunID: ghost, Kind: machine.TimerWall}), Value: codec.EncodeNumber(0)},
		"outbox":               {Key: layout.OutboxKey(nil, 0, &machine.OutboxRow{Kind: machine.OutboxStep, Due: testTime, RunID: run, Step: 9, Attempt: 1}), Value: codec.Mark},
		"cancel of no step":    {Key: layout.OutboxKey(nil, 0, &machine.OutboxRow{Kind: machine.OutboxCancel, Due: testTime, RunID: run, Step: 9, Attempt: 1}), Value: codec.Mark},
		"ready":                {Key: layout.RunKey(nil, layout.KindReady, 0, runID(2)), Value: codec.Mark},
		"index":                {Key: layout.IndexKey(nil, 0, run, &machine.IndexChange{Index: "status", Value: "FAILED"}), Value: codec.Mark},
		"cursor":               {Key: layout.CursorKey(nil, 0, 10_000), Value: codec.AppendEntryRef(nil, run, 1)},
		"checkpoint":           {Key: layout.Number(layout.RunKey(nil, layout.KindSnapshot, 0, run), 2), Value: codec.Mark},
		"pack name":            {Key: layout.PackNameKey(0, "x", "1"), Value: codec.EncodePackName(&machine.PackRow{Digest: "d", ID: "x", Version: "1"})},
		"pack default":         {Key: layout.PackBareKey(0, "x"), Value: layout.BareValue("1")},
		"pack of other digest": {Key: layout.PackKey("sha256:11"), Value: codec.EncodePackBytes(&machine.PackRow{Canonical: []byte("{}")})},
		"unknown kind":         {Key: []byte("zzz"), Value: codec.Mark},
	} {
		raw(t, w.store, op)
		var fault *check.Fault
		if _, err := w.store.Check(context.Background(), w.graphs); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
		raw(t, w.store, layout.Op{Key: op.Key, Delete: true})
	}
	w.check()
}

// TestCheckNamesTheFirstBadRecord: an edited journal is named by run and seq.
func TestCheckNamesTheFirstBadRecord(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	entries, err := w.store.Entries(context.Background(), 0, runID(1), 1, machine.Page{})
	if err != nil {
		t.Fatal(err)
	}
	second := entries[1]
	second.Input.Principal = "mallory"
	for i := range second.Records {
		second.Records[i].Principal = "mallory"
	}
	value, _, err := codec.EncodeEntry(second.PrevHash, second.First, &second.Input, second.Records)
	if err != nil {
		t.Fatal(err)
	}
	codec.SetCursor(value, second.Cursor)
	raw(t, w.store, layout.Op{Key: layout.EntryKey(0, runID(1), second.First), Value: value})
	_, err = w.store.Check(context.Background(), w.graphs)
	third := entries[2].First
	want := fmt.Sprintf("run %s, record %d: entry: it does not follow the entry before", runID(1), third)
	if err == nil || !bytes.HasPrefix([]byte(err.Error()), []byte(want)) {
		t.Fatalf("%v, want %q", err, want)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.store.Check(ctx, w.graphs); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
