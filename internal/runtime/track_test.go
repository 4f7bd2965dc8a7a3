package runtime_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
)

// readStore counts the entries of runs that were read.
type readStore struct {
	runtime.Store
	entries atomic.Int64
}

func (s *readStore) Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error) {
	entries, err := s.Store.Entries(ctx, ns, run, from, page)
	s.entries.Add(int64(len(entries)))
	return entries, err
}

func (s *readStore) Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error) {
	s.entries.Add(1)
	return s.Store.Entry(ctx, ns, run, seq)
}

// TestStateFilterLooksBackAVisit: a watch with a filter by state that meets a long run
// reads the visit under way, not the run's whole history.
func TestStateFilterLooksBackAVisit(t *testing.T) {
	t.Parallel()
	var store *readStore
	r := newRig(t, func(c *services.Config) {
		store = &readStore{Store: c.Store}
		c.Store = store
	})
	run := r.start("s1")
	state, token := run.State.Current, run.Turn.Token
	for i := range 300 {
		answer := r.emit(run.RunID, "Again", fmt.Sprint("e", i), token)
		token = answer.Turn.Token
	}
	for name, filter := range map[string]streams.Filter{
		"state":  {States: []string{state}},
		"status": {Status: []machine.Status{machine.Running}},
	} {
		whole := r.rest(r.watch(watchAll(everyone, filter)))
		if len(whole) < 300 {
			t.Fatalf("%s: %d rows", name, len(whole))
		}
		req := watchAll(everyone, filter)
		req.AfterCursor = whole[len(whole)-3].Cursor.String()
		store.entries.Store(0)
		rest := r.rest(r.watch(req))
		if !sameRows(rest, whole[len(whole)-2:]) || rest[0].PrevSeq != whole[len(whole)-3].Record.Seq {
			t.Fatalf("%s: %+v, want the last two of the whole", name, rest)
		}
		if n := store.entries.Load(); n > 8 {
			t.Errorf("%s: %d entries were read to go on with a run of %d records", name, n, whole[len(whole)-1].Record.Seq)
		}
	}
}
