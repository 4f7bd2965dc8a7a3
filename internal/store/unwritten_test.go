package store

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/memkv"
)

// writersOf are the exported methods that write, and how each is called.
func writersOf(w *world, blob machine.Blob, step machine.OutboxRow, file []byte) map[string]func(s *Store) error {
	ctx := context.Background()
	sub := machine.Subscription{SubscriptionKey: webhook, Owner: "me"}
	later := machine.Blob{SHA256: blob.SHA256, At: testTime + 5}
	return map[string]func(s *Store) error{
		"AppendUpload": func(s *Store) error {
			_, err := s.AppendUpload(ctx, 0, machine.UploadKey{Principal: "p", ID: "new"}, machine.Upload{}, []byte("b"), testTime)
			return err
		},
		"RecordDeadLetter": func(s *Store) error {
			return s.RecordDeadLetter(ctx, sub, &sub, machine.DeadLetter{N: 9, At: testTime})
		},
		"Commit": func(s *Store) error {
			r, err := rules.Step(w.graph, nil, machine.Input{
				At: testTime, Principal: "anonymous", ID: "request", Semantics: machine.Current,
				Command: machine.Start{RunID: runID(90), Execution: machine.Caller, Variables: []byte(`{"goal":"x"}`)},
				Billed:  []machine.Bill{{Account: "/ever"}},
			})
			if err == nil {
				_, err = s.Commit(ctx, r.Batch)
			}
			return err
		},
		"DeleteRun":         func(s *Store) error { _, _, err := s.DeleteRun(ctx, 0, runID(2), asked); return err },
		"DiscardDeadLetter": func(s *Store) error { return s.DiscardDeadLetter(ctx, webhook, 1) },
		"DropOutbox": func(s *Store) error {
			return s.DropOutbox(ctx, machine.OutboxRow{Kind: machine.OutboxStep, RunID: "nobody"})
		},
		"DropSubscription": func(s *Store) error { return s.DropSubscription(ctx, webhook) },
		"EraseRun": func(s *Store) error {
			_, _, err := s.EraseRun(ctx, 0, runID(2), wipe)
			return withoutError(err, reasonOf(err) == "RUN_NOT_ERASABLE")
		},
		"FinishUpload": func(s *Store) error {
			_, err := s.FinishUpload(ctx, 0, begun, w.unfinishedUpload(s), later)
			return err
		},
		"ForgetDeleted": func(s *Store) error { _, err := s.ForgetDeleted(ctx, 0, testTime+100); return err },
		"HoldStep":      func(s *Store) error { return s.HoldStep(ctx, step, machine.StepHolder{Worker: "w"}) },
		"Import": func(s *Store) error {
			x, err := check.Unpack(bytes.NewReader(file))
			if err != nil {
				return err
			}
			_, _, err = s.Import(ctx, 7, x, putOf("codegen", "1.0.0", true).Row, w.graph, testTime)
			return errors.Join(err, check.Discard(x))
		},
		"NumberNamespaces": func(s *Store) error { _, err := s.NumberNamespaces(ctx, []string{"c"}); return err },
		"PutPack":          func(s *Store) error { _, err := s.PutPack(ctx, 0, putOf("codegen", "2.0.0", true)); return err },
		"PutSubscription": func(s *Store) error {
			key := machine.SubscriptionKey{Kind: machine.SubscriptionPush, Run: runID(1), ID: "another"}
			return s.PutSubscription(ctx, machine.Subscription{SubscriptionKey: key, Owner: "me"}, nil)
		},
		"Repair":          func(s *Store) error { _, err := s.Repair(ctx, w.graphs); return err },
		"SweepBlobs":      func(s *Store) error { _, err := s.SweepBlobs(ctx, 0, testTime+100); return err },
		"TrimDeadLetters": func(s *Store) error { _, err := s.TrimDeadLetters(ctx, 0, 0, 1); return err },
	}
}

// unfinishedUpload is what there is of an upload that is not finished; of one that is, nothing.
func (w *world) unfinishedUpload(s *Store) machine.Upload {
	up, err := s.Upload(context.Background(), 0, begun)
	if err != nil {
		return machine.Upload{}
	}
	return up
}

// mostFaults is how many reads of one method are failed, of those that it makes.
const mostFaults = 40

// TestAWriteWhoseReadFails: wherever a read of the engine fails, the method that writes returns
// the error, the store goes on, and the same call again leaves what it leaves without the fault.
func TestAWriteWhoseReadFails(t *testing.T) {
	t.Parallel()
	base := memkv.New()
	s, _ := openUnreliable(t, base)
	w, blob := fullWorld(t, s)
	w.store = s
	step, file := w.step(math.MaxInt64), w.export(runID(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writes := writersOf(w, blob, step, file)
	if names := slices.Sorted(maps.Keys(writes)); !slices.Equal(names, writers) {
		t.Fatalf("%v are called, want %v", names, writers)
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			want, n := rowsAfterCrash(t, w, base.Clone(), 0, write)
			for i := int64(1); i <= n; i += max(1, n/mostFaults) {
				if got, _ := rowsAfterCrash(t, w, base.Clone(), i, write); !maps.Equal(got, want) {
					t.Errorf("read %d of %d failed: %d pairs, want %d", i, n, len(got), len(want))
				}
			}
		})
	}
}

// rowsAfterCrash is what a call leaves whose n-th read fails, 0 = none, and that is made again then,
// and how many reads there were without a fault.
func rowsAfterCrash(t *testing.T, w *world, db *memkv.DB, n int64, write func(s *Store) error) (map[string]string, int64) {
	t.Helper()
	s, faults := openUnreliable(t, db)
	faults.FailAfter(n)
	err := write(s)
	reads := faults.Reads()
	if n > 0 && !errors.Is(err, kvtest.ErrRead) || n == 0 && err != nil {
		t.Fatalf("read %d failed: %v", n, err)
	}
	faults.FailAfter(0)
	if n > 0 {
		if err := write(s); err != nil {
			t.Fatalf("again after read %d failed: %v", n, err)
		}
	}
	if _, err := s.Check(context.Background(), w.graphs); err != nil {
		t.Fatalf("read %d failed: %v", n, err)
	}
	pairs := kvtest.Pairs(t, kv.On(s.engine.View(s.readTimestamps.durable())))
	delete(pairs, string(layout.GroupKey))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return pairs, reads
}

// TestAStartWhoseReadFails: the store is not opened, and is by the next start.
func TestAStartWhoseReadFails(t *testing.T) {
	t.Parallel()
	base := memkv.New()
	s, faults := openUnreliable(t, base)
	w, _ := fullWorld(t, s)
	want := w.check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opts := unreliably(t, base, faults)
	faults.FailAfter(0)
	s, err := Open(opts)
	reads := faults.Reads()
	if err := errors.Join(err, s.Close()); err != nil || reads == 0 {
		t.Fatalf("%d reads, %v", reads, err)
	}
	for i := int64(1); i <= reads; i++ {
		faults.FailAfter(i)
		if _, err := Open(opts); !errors.Is(err, kvtest.ErrRead) {
			t.Fatalf("read %d of %d failed: %v", i, reads, err)
		}
	}
	faults.FailAfter(0)
	if s, err = Open(opts); err != nil {
		t.Fatal(err)
	}
	w.store = s
	if got := w.check(); got != want {
		t.Errorf("afterwards %+v, before %+v", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
