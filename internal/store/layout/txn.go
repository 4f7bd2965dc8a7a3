package layout

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Txn reads rows at one moment. It also decrypts the rows of erasable runs.
type Txn struct {
	kv.View
	// Keys provides the keys of runs. If it is nil, a read of a sealed row returns an error.
	Keys Keyring
}

// Keyring provides the keys of runs, and the time at which a key was destroyed, in Unix
// nanoseconds.
type Keyring interface {
	codec.Keys
	DestroyedAt(slot uint64) int64
}

// Entry decodes a journal value of the run with the id run. If the run was erased, the entry
// contains only its readable part.
func (t *Txn) Entry(run string, value []byte) (machine.Entry, error) {
	return codec.ReadEntry(run, value, t.Keys)
}

// Head decodes a head or a checkpoint. If the run was erased, the state contains only its readable
// part, and the time and the principal of the erasure.
func (t *Txn) Head(value []byte) (*machine.State, error) {
	st, err := codec.ReadHead(value, t.Keys)
	if err != nil || st.Erased == nil {
		return st, err
	}
	e, err := ErasedOf(t, st.Namespace, st.RunID)
	if err != nil {
		return nil, err
	}
	if e == nil {
		// The key was destroyed in another store, from which the rows of this store came.
		st.Erased.At = t.Keys.DestroyedAt(st.Key)
		return st, nil
	}
	st.Erased = e
	return st, nil
}

// Dedupe decodes an idempotency row. erased means that the hash of the body is lost because the run
// was erased.
func (t *Txn) Dedupe(key machine.Dedupe, value []byte) (d machine.Dedupe, erased bool, err error) {
	return codec.ReadDedupe(key, value, t.Keys)
}

// ErasedKey returns the key of the row that records that a run's values were erased.
func ErasedKey(ns uint32, run string) []byte {
	return RunKey(make([]byte, 0, 40), KindErased, ns, run)
}

// ErasedOf returns the row that records the erasure of a run's values, or nil if no such row
// exists.
func ErasedOf(txn *Txn, ns uint32, run string) (*machine.Erased, error) {
	value, err := Get(txn, ErasedKey(ns, run))
	if err != nil || value == nil {
		return nil, err
	}
	e, err := codec.DecodeErased(value)
	e.RunID = run
	return &e, err
}

// Withheld returns the error for values of an erased run. It returns nil if the run was not erased
// or does not exist.
func Withheld(txn *Txn, ns uint32, run string) error {
	st, err := StoredHead(txn, ns, run)
	switch {
	case errors.Is(err, machine.ErrNoRun):
		return nil
	case err != nil:
		return err
	case st.Erased != nil:
		return st.Erased.Err()
	}
	return nil
}

// SealedRow reports whether the row is sealed under the key of its run.
func SealedRow(op Op) bool {
	switch op.Key[0] {
	case KindHead, KindEntry, KindSnapshot, KindRunID, KindCallerID:
		_, ok := codec.Sealed(op.Value)
		return ok
	}
	return false
}
