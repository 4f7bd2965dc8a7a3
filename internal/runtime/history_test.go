package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
)

// countingStore counts the entries that are read and can hide its checkpoints.
type countingStore struct {
	runtime.Store
	entries atomic.Int64
	bare    atomic.Bool
	broken  error
}

func (s *countingStore) Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error) {
	found, err := s.Store.Entries(ctx, ns, run, from, page)
	s.entries.Add(int64(len(found)))
	return found, err
}

func (s *countingStore) Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error) {
	if s.bare.Load() {
		return nil, s.broken
	}
	return s.Store.Checkpoint(ctx, ns, run, seq)
}

// longRun is a run of some thousands of records: visits with artifacts of both
// modes, with now and then an input between them.
func longRun(t *testing.T, inputs int) (*rig, *countingStore, string) {
	t.Helper()
	r := newRig(t, func(c *services.Config) { c.Limits.MaxTransitions = 1 << 20 })
	counting := &countingStore{Store: r.store}
	r.cfg.Store = counting
	r.open()
	run := r.start("s1")
	token := run.Turn.Token
	for i := range inputs {
		if i%3 == 0 {
			if _, err := r.SendInput(context.Background(), runtime.InputRequest{
				RunRef: ref(run.RunID, everyone), Parts: []machine.Part{{Kind: machine.PartText, Text: fmt.Sprint(i)}},
			}); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
			RunRef: ref(run.RunID, everyone), Event: "Again", TurnToken: token,
			Artifacts: []machine.ArtifactWrite{{Name: "note", Value: fmt.Append(nil, i)}, {Name: "log", Value: fmt.Append(nil, i)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		token = answer.Turn.Token
	}
	return r, counting, run.RunID
}

// TestSnapshotIsABoundedReplay: a past state of a long run reads few entries,
// and is the one that a replay from the first record makes.
func TestSnapshotIsABoundedReplay(t *testing.T) {
	t.Parallel()
	r, counting, run := longRun(t, 2400)
	last := r.view(run).State.Seq
	if last < 3000 {
		t.Fatalf("the run has %d records only", last)
	}
	at := func(t rapid.TB, seq uint64, bare bool) *machine.State {
		counting.bare.Store(bare)
		counting.entries.Store(0)
		s, err := r.StateAt(context.Background(), ref(run, reader), seq)
		if err != nil {
			t.Fatalf("record %d: %v", seq, err)
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Uint64Range(1, last-1).Draw(t, "seq")
		got := at(t, seq, false)
		// 256 records lie between two checkpoints; one page more may be read.
		if n := counting.entries.Load(); n > 512 {
			t.Fatalf("record %d of %d: %d entries were read", seq, last, n)
		}
		want := at(t, seq, true)
		if n := counting.entries.Load(); n < int64(seq)/2 {
			t.Fatalf("record %d: the whole replay read %d entries only", seq, n)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("record %d: the states differ:\n%+v\n%+v", seq, got, want)
		}
	})
	if s := at(t, last/256*256, false); s.Seq != last/256*256 || counting.entries.Load() != 0 {
		t.Fatalf("at a checkpoint: seq %d after %d entries", s.Seq, counting.entries.Load())
	}
}

func TestUnreadableCheckpointIsAnError(t *testing.T) {
	t.Parallel()
	r, counting, run := longRun(t, 2)
	counting.broken = errors.New("bad block")
	counting.bare.Store(true)
	_, err := r.StateAt(context.Background(), ref(run, reader), 1)
	if !errors.Is(err, counting.broken) {
		t.Fatalf("got %v", err)
	}
}
