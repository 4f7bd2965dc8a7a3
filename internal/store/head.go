package store

import (
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// Replay takes the inputs of a run's last entries once more and returns the state after
// them, its PrevHash the last one's hash. The head is that before them. Who runs the
// machine gives it to the store, which knows neither packs nor rules.
type Replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error)

// ReplayWith says how the states of runs are made whose last entries came after their
// stored head. Call it before anybody reads such a run; until then that is an error.
func (s *Store) ReplayWith(replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error)) {
	r := Replay(replay)
	s.replay.Store(&r)
}

// errNoReplay: nobody has called ReplayWith.
var errNoReplay = errors.New("the run goes on behind its stored head, and the store was not told how to replay it")

// storedHead is the last head that was stored of a run, see headDue; machine.ErrNoRun.
func storedHead(txn *badger.Txn, ns uint32, run string) (*machine.State, error) {
	value, err := get(txn, headKey(ns, run))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, machine.ErrNoRun
	}
	return codec.DecodeHead(value)
}

// headAt is the state of a run after its last entry: the stored head, and fewer than
// headEvery entries after it. It is the way for every run at any time, after a crash,
// too.
func (s *Store) headAt(ctx context.Context, txn *badger.Txn, ns uint32, run string) (*machine.State, error) {
	head, err := storedHead(txn, ns, run)
	if err != nil {
		return nil, err
	}
	tail, err := tailOf(txn, ns, head)
	if err != nil {
		return nil, err
	}
	return s.replayed(ctx, head, tail)
}

// replayed goes on from a stored head.
func (s *Store) replayed(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error) {
	if len(tail) == 0 {
		return head, nil
	}
	replay := s.replay.Load()
	if replay == nil {
		return nil, errNoReplay
	}
	st, err := (*replay)(ctx, head, tail)
	if err != nil {
		return nil, err
	}
	last := &tail[len(tail)-1]
	if seq := last.First + uint64(len(last.Records)) - 1; st.Seq != seq {
		return nil, damage("", "the replay of run %q ends at record %d, its last entry with record %d", st.RunID, st.Seq, seq)
	}
	after := *st
	after.Unlisted = unlisted(head, tail)
	return &after, nil
}

// tailOf reads the entries after a stored head.
func tailOf(txn *badger.Txn, ns uint32, head *machine.State) ([]machine.Entry, error) {
	var tail []machine.Entry
	err := eachAfter(txn, headKey(ns, head.RunID), head.Seq, func(value []byte) (int, error) {
		e, err := codec.DecodeEntry(head.RunID, value)
		tail = append(tail, e)
		return len(e.Records), err
	})
	return tail, err
}

// eachAfter visits the entries that follow a record of a run; visit says how many
// records one has.
func eachAfter(txn *badger.Txn, head []byte, seq uint64, visit func(value []byte) (records int, err error)) error {
	key := make([]byte, 0, len(head)+8)
	for {
		value, err := get(txn, entryOf(key, head, seq+1))
		if err != nil || value == nil {
			return err
		}
		records, err := visit(value)
		if err != nil {
			return err
		}
		seq += uint64(records)
	}
}

// lastSeq is the seq of a run's last record, 0 if there is no such run.
func lastSeq(txn *badger.Txn, head []byte) (uint64, error) {
	seq, err := headSeq(txn, head)
	if err != nil || seq == 0 {
		return seq, err
	}
	err = eachAfter(txn, head, seq, func(value []byte) (int, error) {
		_, records, err := codec.EntrySpan(value)
		seq += uint64(records)
		return records, err
	})
	return seq, err
}

// unlisted are the artifact versions of entries after a stored head: rows have none of
// them. The head knows every artifact, see firstWrites.
func unlisted(head *machine.State, tail []machine.Entry) []machine.ArtifactVersion {
	var versions []machine.ArtifactVersion
	for i := range tail {
		for j := range tail[i].Records {
			r := &tail[i].Records[j]
			for _, w := range machine.Written(r.Body) {
				versions = append(versions, machine.ArtifactVersion{
					Name: w.Name, Seq: r.Seq, Mode: modeOf(head, w.Name), Bytes: int64(len(w.Value)),
				})
			}
		}
	}
	return versions
}

func modeOf(head *machine.State, artifact string) machine.Mode {
	for i := range head.Artifacts {
		if head.Artifacts[i].Name == artifact {
			return head.Artifacts[i].Mode
		}
	}
	return 0
}
