package store

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// TestHoldStep: who holds a step outlives a crash, and ends with the attempt.
func TestHoldStep(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t, openTemp(t)), context.Background()
	w.live(runID(1))
	rows, err := w.store.Outbox(ctx, machine.OutboxStep, math.MaxInt64, 10)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	row, holder := rows[0], machine.StepHolder{Principal: "build", Worker: "w-1"}
	if got, err := w.store.StepHolder(ctx, row); err != nil || got != (machine.StepHolder{}) {
		t.Fatalf("a new step is held by %+v, %v", got, err)
	}
	if err := w.store.HoldStep(ctx, row, holder); err != nil {
		t.Fatal(err)
	}
	w.check()
	w.store = openTemp(t, func(o *Options) { o.Dir = copyStore(t, w.store) })
	if got, err := w.store.StepHolder(ctx, row); err != nil || got != holder {
		t.Fatalf("after a crash it is held by %+v, %v", got, err)
	}
	again := w.do(runID(1), machine.LoseStep{Step: row.Step, Attempt: row.Attempt, Worker: "w-1"})
	if again.Steps[1].Status != machine.StepStatusError {
		t.Fatalf("the step is %+v", again.Steps[1])
	}
	if err := w.store.HoldStep(ctx, row, holder); !errors.Is(err, machine.ErrNoStep) {
		t.Fatalf("a step that is over can be held: %v", err)
	}
	if _, err := w.store.StepHolder(ctx, row); !errors.Is(err, machine.ErrNoStep) {
		t.Fatalf("a step that is over is held: %v", err)
	}
	w.check()
}

// TestHoldStepInAGroup: a row that a batch of the same group removes does not
// come back with a holder.
func TestHoldStepInAGroup(t *testing.T) {
	t.Parallel()
	s, st := newStalledStore(t)
	w := newWorld(t, s)
	w.live(runID(1))
	rows, err := s.Outbox(context.Background(), machine.OutboxStep, math.MaxInt64, 10)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	lost, err := rules.Step(w.graph, w.runs[runID(1)], machine.Input{At: w.at, Command: machine.LoseStep{Step: 2, Attempt: 1}})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := s.Encode(lost.Batch)
	if err != nil {
		t.Fatal(err)
	}
	st.hold(func() { _, _ = s.Commit(context.Background(), startBatch(runID(2), "")) })
	hold := holdWrites(rows[0], machine.StepHolder{Worker: "w"})
	if err := s.checkSize(hold); err != nil {
		t.Fatal(err)
	}
	var group []*request
	for _, writes := range []*Writes{batch, hold} {
		group = append(group, &request{w: writes, done: make(chan error, 1)})
		s.committer.queue <- group[len(group)-1]
	}
	st.release()
	if err := <-group[0].done; err != nil {
		t.Fatal(err)
	}
	if err := <-group[1].done; !errors.Is(err, machine.ErrNoStep) {
		t.Fatalf("the row of an answered step was written again: %v", err)
	}
}

// BenchmarkHoldStep stores holders one after the other, and from 64 callers at
// once, whose writes share their syncs.
func BenchmarkHoldStep(b *testing.B) {
	w := newWorld(b, openTemp(b))
	w.live(runID(1))
	ctx := context.Background()
	rows, err := w.store.Outbox(ctx, machine.OutboxStep, math.MaxInt64, 10)
	if err != nil || len(rows) != 1 {
		b.Fatalf("%+v, %v", rows, err)
	}
	hold := func() {
		if err := w.store.HoldStep(ctx, rows[0], machine.StepHolder{Principal: "build", Worker: "w-1"}); err != nil {
			b.Error(err)
		}
	}
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			hold()
		}
	})
	b.Run("64 callers", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				hold()
			}
		})
	})
}
