package store

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Replay applies the inputs of a run's last entries again and returns the resulting state. head is the
// state before those entries. PrevHash of the returned state is the hash of the last entry. The store
// gets this function from the code that runs the machine, because the store knows neither packs nor
// rules.
type Replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error)

// ReplayWith sets the function that computes the state of runs that have entries after their stored
// head. It must be called before the first read of a run. Until then, a read of a run with later
// entries returns an error.
func (s *Store) ReplayWith(replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error)) {
	r := Replay(replay)
	s.replay.Store(&r)
}

// errNoReplay means that ReplayWith was not called.
var errNoReplay = errors.New("the run goes on behind its stored head, and the store was not told how to replay it")

// headAt returns the state of a run after its last entry. It replays the entries after the stored head.
// There are fewer than layout.HeadEvery of them. It works for every run at any time, even after a
// crash.
func (s *Store) headAt(ctx context.Context, txn *layout.Txn, ns uint32, run string) (*machine.State, error) {
	head, err := layout.StoredHead(txn, ns, run)
	if err != nil {
		return nil, err
	}
	tail, err := layout.TailOf(txn, ns, head)
	if err != nil {
		return nil, err
	}
	return s.replayed(ctx, txn, head, tail)
}

// replayed returns the state after the entries tail, which follow the stored head. txn must include
// the rows that the replay reads.
func (s *Store) replayed(ctx context.Context, txn *layout.Txn, head *machine.State, tail []machine.Entry) (*machine.State, error) {
	if len(tail) == 0 {
		return head, nil
	}
	replay := s.replay.Load()
	if replay == nil {
		return nil, errNoReplay
	}
	st, err := (*replay)(context.WithValue(ctx, inView{s}, txn), head, tail)
	if err != nil {
		return nil, err
	}
	last := &tail[len(tail)-1]
	if seq := last.First + uint64(len(last.Records)) - 1; st.Seq != seq {
		return nil, layout.Damaged("", "the replay of run %q ends at record %d, its last entry with record %d", st.RunID, st.Seq, seq)
	}
	after := *st
	after.Unlisted = layout.Unlisted(head, tail)
	return &after, nil
}
