package layout

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Txn reads rows at one moment, those of runs that can be erased with their keys.
type Txn struct {
	kv.View
	// Keys nil: sealed rows are not read.
	Keys Keyring
}

// Keyring finds the keys of runs, and when one was destroyed, Unix nanoseconds.
type Keyring interface {
	codec.Keys
	DestroyedAt(slot uint64) int64
}

// Entry reads a journal value of the named run; of an erased run it has what is left.
func (t *Txn) Entry(run string, value []byte) (machine.Entry, error) {
	return codec.ReadEntry(run, value, t.Keys)
}

// Head reads a head or a checkpoint. The state of an erased run has the readable rest, and the
// time and principal of the erasure.
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
		// The key was destroyed in another store that this one's rows came from.
		st.Erased.At = t.Keys.DestroyedAt(st.Key)
		return st, nil
	}
	st.Erased = e
	return st, nil
}

// Dedupe reads the row of an id; erased: the hash of the body is gone.
func (t *Txn) Dedupe(key machine.Dedupe, value []byte) (d machine.Dedupe, erased bool, err error) {
	return codec.ReadDedupe(key, value, t.Keys)
}

// ErasedKey is the key of that a run's values were erased.
func ErasedKey(ns uint32, run string) []byte {
	return RunKey(make([]byte, 0, 40), KindErased, ns, run)
}

// ErasedOf reads whether a run's values were erased; nil: no row says so.
func ErasedOf(txn *Txn, ns uint32, run string) (*machine.Erased, error) {
	value, err := Get(txn, ErasedKey(ns, run))
	if err != nil || value == nil {
		return nil, err
	}
	e, err := codec.DecodeErased(value)
	e.RunID = run
	return &e, err
}

// Withheld is the refusal of values of a run that was erased, nil if it was not. A run that is
// not there was not.
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

// SealedRow: the row is sealed under the key of its run.
func SealedRow(op Op) bool {
	switch op.Key[0] {
	case KindHead, KindEntry, KindSnapshot, KindRunID, KindCallerID:
		_, ok := codec.Sealed(op.Value)
		return ok
	}
	return false
}
