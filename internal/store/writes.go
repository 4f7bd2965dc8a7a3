package store

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// expect is a precondition on one key. The key must have this value. If value is nil, the key must be
// absent.
type expect struct {
	key, value []byte
	// predicate checks the stored value if it is not nil. In this case the stored value is not compared
	// with value.
	predicate func(value []byte) bool
	// err is the error of the commit if the precondition does not hold.
	err error
}

// present is a predicate that accepts every value of an existing key.
func present(value []byte) bool { return value != nil }

// Writes is an encoded batch: the rows that one commit sets, and the preconditions of the commit.
type Writes struct {
	ns  uint32
	ops []layout.Op

	// entry is the index of the journal entry in ops. The committer writes the cursor into this entry.
	// It is negative if the writes have no journal entry.
	entry int
	// run is the head key of the run. The run's last seq must be equal to prev, and becomes last. runID
	// is the name of the run in the row of cursors.
	run        []byte
	runID      string
	prev, last uint64
	expects    []expect
	// requireNoRefs is a prefix. No key may exist under it. If it is nil, nothing is checked.
	requireNoRefs []byte
	// dropped is the prefix whose rows are removed after the commit. It is nil if there is none.
	dropped []byte
	// reclaimsSpace means that the writes free disk space. Such writes are accepted even if the disk is
	// nearly full.
	reclaimsSpace bool
	// flushWatermarks means that the commit also stores the watermarks that scans have raised.
	flushWatermarks bool

	size           size
	prevHash, hash [32]byte
	// unlisted are artifact versions of the run that no row contains yet, even after this batch.
	unlisted []machine.ArtifactVersion
	cursor   uint64
}

// removesLargeValues reports whether the writes remove values that may be large.
func (w *Writes) removesLargeValues() bool {
	for i := range w.ops {
		if w.ops[i].RemovesLargeValue() {
			return true
		}
	}
	return false
}

// Ops returns the keys and values. The cursor in the entry is still 0.
func (w *Writes) Ops() []layout.Op { return w.ops }

// Bytes returns the total size of the keys and values.
func (w *Writes) Bytes() int64 {
	var n int64
	for i := range w.ops {
		n += int64(len(w.ops[i].Key) + len(w.ops[i].Value))
	}
	return n
}

// Encode computes the bytes of a batch and stores nothing. It runs in the caller's goroutine, so that
// the committer only has to check, number and sync the batch. batch.State.PrevHash must be the hash of
// the run's last entry.
func (s *Store) Encode(batch *machine.Batch) (*Writes, error) {
	w, err := s.writesOf(context.Background(), batch)
	if err != nil {
		return nil, err
	}
	return w, s.checkSize(w)
}

// writesOf returns the writes of a batch with the preconditions of its commit.
func (s *Store) writesOf(ctx context.Context, batch *machine.Batch) (*Writes, error) {
	key, err := s.runKeys.Of(ctx, batch)
	if err != nil {
		return nil, err
	}
	m, err := layout.Encode(batch, key)
	if err != nil {
		return nil, err
	}
	w := &Writes{
		ns: m.Ns, ops: m.Ops, entry: m.Entry, run: m.Run, runID: m.RunID, prev: m.Prev, last: m.Last,
		prevHash: m.PrevHash, hash: m.Hash, unlisted: m.Unlisted,
	}
	if len(m.Fresh) > 0 {
		w.expects = make([]expect, len(m.Fresh))
		for i, key := range m.Fresh {
			w.expects[i] = expect{key: key, err: machine.ErrConsumed}
		}
	}
	for _, key := range m.Untaken {
		w.expects = append(w.expects, expect{key: key, err: machine.ErrEffectTaken})
	}
	return w, nil
}
