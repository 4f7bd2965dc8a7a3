package store

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// expect is a precondition on one key: the key must have this value, or must be absent if value is
// nil.
type expect struct {
	key, value []byte
	// predicate, if not nil, checks the stored value instead of a comparison with value.
	predicate func(value []byte) bool
	// err is the error of the commit if the precondition does not hold.
	err error
}

// present is a predicate that holds for every value.
func present(value []byte) bool { return value != nil }

// Writes is an encoded batch: the rows that one commit sets, and the preconditions of the commit.
type Writes struct {
	ns  uint32
	ops []layout.Op

	// entry is the index in ops of the journal entry, into which the committer writes the cursor.
	// It is negative if the writes have no journal entry.
	entry int
	// run is the head key of the run. The run's last seq must be prev, and becomes last. runID is
	// the name of the run in the row of cursors.
	run        []byte
	runID      string
	prev, last uint64
	expects    []expect
	// requireNoRefs is a prefix under which no key may exist. If it is nil, nothing is checked.
	requireNoRefs []byte
	// dropped is the prefix whose rows are removed after the commit, nil if there is none.
	dropped []byte
	// reclaimsSpace marks writes that free disk space, which a nearly full disk still accepts.
	reclaimsSpace bool
	// flushWatermarks means that the commit also stores the watermarks that scans have raised.
	flushWatermarks bool

	size           size
	prevHash, hash [32]byte
	// unlisted are the run's artifact versions that no row contains after this batch.
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

// Encode makes the bytes of a batch without storing anything. It runs in the caller's goroutine, so
// that the committer only has to check, number and sync the batch. batch.State.PrevHash must be the
// hash of the run's last entry.
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
