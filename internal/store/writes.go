package store

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// expect is a precondition on one key: it has this value, or is absent if nil.
type expect struct {
	key, value []byte
	// predicate judges the value in place of value, nil = there is none.
	predicate func(value []byte) bool
	// err is the error when it does not hold.
	err error
}

// present takes any value.
func present(value []byte) bool { return value != nil }

// Writes is an encoded batch: what one commit sets, and on which conditions.
type Writes struct {
	ns  uint32
	ops []layout.Op

	// entry is the value that the committer completes with the cursor, as an index
	// into ops; < 0 = writes without a journal entry.
	entry int
	// run is the head key of the run whose last seq must be prev and becomes last; runID is its
	// name in the row of cursors.
	run        []byte
	runID      string
	prev, last uint64
	expects    []expect
	// requireNoRefs is a prefix under which no key may exist; nil = no check.
	requireNoRefs []byte
	// dropped is the prefix whose rows are removed afterwards; nil = none.
	dropped []byte
	// reclaimsSpace marks writes that free disk space, which a nearly full disk still accepts.
	reclaimsSpace bool
	// flushWatermarks: the watermarks that scans have moved are stored as well.
	flushWatermarks bool

	size           size
	prevHash, hash [32]byte
	// unlisted are the run's artifact versions that are in no row after this batch.
	unlisted []machine.ArtifactVersion
	cursor   uint64
}

// removesLargeValues: values that may be large are removed.
func (w *Writes) removesLargeValues() bool {
	for i := range w.ops {
		if w.ops[i].RemovesLargeValue() {
			return true
		}
	}
	return false
}

// Ops are the keys and values, the cursor's still open (zero).
func (w *Writes) Ops() []layout.Op { return w.ops }

// Bytes counts keys and values.
func (w *Writes) Bytes() int64 {
	var n int64
	for i := range w.ops {
		n += int64(len(w.ops[i].Key) + len(w.ops[i].Value))
	}
	return n
}

// Encode makes the bytes of a batch without storing anything. It runs in the
// caller's goroutine, so that the committer only checks, numbers and syncs.
// batch.State.PrevHash must be the hash of the run's last entry.
func (s *Store) Encode(batch *machine.Batch) (*Writes, error) {
	w, err := s.writesOf(context.Background(), batch)
	if err != nil {
		return nil, err
	}
	return w, s.checkSize(w)
}

// writesOf is a batch with the preconditions of its commit.
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
