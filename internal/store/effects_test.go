package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// businessKey returns the n-th business key of these tests.
func businessKey(n byte) [32]byte { return [32]byte{0: n, 31: 0xE} }

// startEffects starts a run with one step for each of the keys. It answers the steps in well with a success
// and the steps in nothing with a final error. The other steps stay open.
func (w *world) startEffects(run string, keys, well, nothing []byte) {
	w.t.Helper()
	turn := w.start(run).Turn
	c := machine.RequestSteps{TurnSeq: turn.Seq, Attempt: turn.Attempt}
	for _, n := range keys {
		c.Requests = append(c.Requests, machine.StepRequest{Key: string('a' + n), Tool: "run_tests", Payload: []byte(`{}`), Effect: businessKey(n)})
	}
	st := w.do(run, c)
	for i, n := range keys {
		answer := machine.ResolveStep{Step: st.Steps[i].Step, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte("1")}
		switch {
		case bytes.IndexByte(well, n) >= 0:
			w.do(run, answer)
		case bytes.IndexByte(nothing, n) >= 0:
			answer.OK, answer.Result, answer.Error, answer.Final = false, nil, machine.Fault{Code: "BROKEN"}, true
			w.do(run, answer)
		}
	}
}

// keysWorld has business keys in all situations: held by an open step, answered, released after a failure,
// taken by the next step, and of a deleted run.
func keysWorld(t *testing.T) *world {
	t.Helper()
	w := travelWorld(t)
	w.startEffects("A", []byte{1, 2, 3}, []byte{1}, []byte{3})
	w.startEffects("B", []byte{3, 4}, []byte{3}, nil)
	w.end("B")
	w.startEffects("gone", []byte{5}, []byte{5}, nil)
	w.end("gone")
	w.delete("gone")
	return w
}

func (w *world) keyRows(t *testing.T) []layout.Op {
	t.Helper()
	var found []layout.Op
	for _, row := range rows(t, w.store) {
		if row.Key[0] == layout.KindEffect {
			found = append(found, row)
		}
	}
	return found
}

// TestBusinessKeysAreChecked: a check finds a row of a business key that is missing, has no step, or names
// another run or another record. A repair writes the row again. The rows of a deleted run stay.
func TestBusinessKeysAreChecked(t *testing.T) {
	t.Parallel()
	key := func(n byte) []byte { return layout.EffectKey(nil, 0, businessKey(n)) }
	row := func(run string, step uint32) []byte {
		return codec.EncodeEffect(&machine.Effect{RunID: run, Step: step, PayloadSeq: 4, AnswerSeq: 5})
	}
	for name, spoiled := range map[string]layout.Op{
		"missing":           {Key: key(1), Delete: true},
		"held, and missing": {Key: key(4), Delete: true},
		"another's":         {Key: key(1), Value: row("B", 1)},
		"of a deleted run":  {Key: key(1), Value: row("gone", 1)},
		"another answer":    {Key: key(2), Value: row("A", 2)},
		"unreadable":        {Key: key(3), Value: []byte("x")},
		"nobody's":          {Key: key(9), Value: row("A", 1)},
		"of nothing":        {Key: key(9), Value: []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := keysWorld(t)
			if report := w.check(); report.Keys != 5 {
				t.Fatalf("%d keys", report.Keys)
			}
			want := w.keyRows(t)
			raw(t, w.store, spoiled)
			_, err := w.store.Check(t.Context(), w.graphs)
			var fault *check.Fault
			if !errors.As(err, &fault) || fault.Row != "business key" {
				t.Fatalf("got %v", err)
			}
			done := w.repair()
			if n := done.Rows["business key"]; n == nil || n.Made+n.Changed+n.Removed != 1 || len(done.Broken) > 0 {
				t.Errorf("repaired %+v", n)
			}
			sameKeys(t, w.keyRows(t), want)
			w.check()
		})
	}
}

func sameKeys(t *testing.T, got, want []layout.Op) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i].Key, want[i].Key) || !bytes.Equal(got[i].Value, want[i].Value) {
			t.Errorf("row %x is %x, want %x", got[i].Key, got[i].Value, want[i].Value)
		}
	}
}

// TestBusinessKeysTravel: a backup and a compaction keep the business keys. An imported run has no business
// keys in the new store.
func TestBusinessKeysTravel(t *testing.T) {
	t.Parallel()
	w := keysWorld(t)
	want := w.keyRows(t)
	stored, _ := w.backup("")
	here := w.store
	back, err := restored(t, stored)
	if err != nil {
		t.Fatal(err)
	}
	w.store = back
	sameKeys(t, w.keyRows(t), want)
	if report := w.check(); report.Keys != 5 {
		t.Errorf("%d keys", report.Keys)
	}
	dir := back.opts.Dir
	if err := back.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(t.Context(), compactOptions(dir, nil), "", func(*Store) check.Graphs { return w.graphs }); err != nil {
		t.Fatal(err)
	}
	w.store = openTemp(t, func(o *Options) { o.Dir = dir })
	sameKeys(t, w.keyRows(t), want)
	w.check()
	w.store = here
	file := w.export("B")
	other := openTemp(t)
	if _, _, err := w.importInto(other, 0, file); err != nil {
		t.Fatal(err)
	}
	w.store = other
	sameKeys(t, w.keyRows(t), nil)
	w.check()
}
