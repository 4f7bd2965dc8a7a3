package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// repeatedBatch is a batch that follows st and uses the id of first.
func repeatedBatch(st *machine.State, first *machine.Batch) *machine.Batch {
	b := eventBatch(st, []byte("again"))
	b.Consumed[0].ID = first.Consumed[0].ID
	return b
}

func TestTakenIDIsRefusedWhateverIsRemembered(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	start := startBatch(runID(1), "")
	event := eventBatch(start.State, []byte("once"))
	for _, b := range []*machine.Batch{start, event} {
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		event.State.PrevHash = b.State.PrevHash
	}
	if _, err := s.Commit(t.Context(), repeatedBatch(event.State, event)); !errors.Is(err, machine.ErrConsumed) {
		t.Errorf("remembered: %v", err)
	}
	other := newKnownIDs()
	s.committer.knownIDs.runs = other.runs
	if _, err := s.Commit(t.Context(), repeatedBatch(event.State, event)); !errors.Is(err, machine.ErrConsumed) {
		t.Errorf("forgotten: %v", err)
	}
	if _, err := s.Commit(t.Context(), eventBatch(event.State, []byte("new"))); err != nil {
		t.Errorf("a new id of a forgotten run: %v", err)
	}
}

func TestFreshProvesOnlyWhatItSaw(t *testing.T) {
	t.Parallel()
	f := newKnownIDs()
	run, id := []byte("h-run"), []byte{layout.KindRunID, 'a'}
	if f.isUnused(run, id) {
		t.Error("an unknown run's id is said to be absent")
	}
	f.addIDs(&Writes{run: run, prev: 7, expects: []expect{{key: id}}})
	if f.isUnused(run, id) || f.size != 0 {
		t.Error("a run that began earlier is remembered")
	}
	f.addIDs(&Writes{run: run})
	if !f.isUnused(run, id) {
		t.Error("a new run's first id is not proven to be absent")
	}
	f.addIDs(&Writes{run: run, prev: 1, expects: []expect{{key: id}}})
	if f.isUnused(run, id) {
		t.Error("a taken id is said to be absent")
	}
}

func TestFreshIsBounded(t *testing.T) {
	t.Parallel()
	f := newKnownIDs()
	for n := range 3 * maxKnownIDs / 2 {
		f.addIDs(&Writes{run: fmt.Append(nil, n), expects: []expect{{key: fmt.Append([]byte{layout.KindRunID}, n)}}})
		if f.size > maxKnownIDs {
			t.Fatalf("%d held after %d runs, at most %d", f.size, n, maxKnownIDs)
		}
	}
	sum := 0
	for _, ids := range f.runs {
		sum += 1 + len(ids)
	}
	if sum != f.size {
		t.Errorf("counts %d, holds %d", f.size, sum)
	}
}
