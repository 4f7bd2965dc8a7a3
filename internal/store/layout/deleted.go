package layout

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// DeletedKey returns the key of the row that the store keeps of a deleted run, so that its id stays
// reserved.
func DeletedKey(ns uint32, run string) []byte {
	return RunKey(make([]byte, 0, 40), KindDeleted, ns, run)
}

// DeletedOf reads the row that the store keeps of a deleted run. It returns nil if the run was not
// deleted.
func DeletedOf(txn *Txn, ns uint32, run string) (*machine.Deleted, error) {
	value, err := Get(txn, DeletedKey(ns, run))
	if err != nil || value == nil {
		return nil, err
	}
	d, err := codec.DecodeDeleted(value)
	d.RunID = run
	return &d, err
}

// MissingRunError returns the error for a run that does not exist. If the run was deleted, this is RUN_DELETED,
// which also wraps miss if miss is not nil. Otherwise it is miss, which may be nil.
func MissingRunError(txn *Txn, ns uint32, run string, miss error) error {
	d, err := DeletedOf(txn, ns, run)
	switch {
	case err != nil || d == nil && miss != nil:
		return errorOr(err, miss)
	case d == nil:
		return nil
	case miss == nil:
		return d.Err()
	}
	return fmt.Errorf("%w: %w", miss, d.Err())
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// RemovalKey returns the key of a row that exists while other rows of a deleted run are still being
// removed.
func RemovalKey(ns uint32, run string) []byte { return DropKey(DeletedKey(ns, run)) }

// RunEnd describes the end of a run's journal.
type RunEnd struct {
	// Head is the stored current state of the run, which may be older than the last record.
	Head *machine.State
	// Last is the number of the last record. Hash is the hash of the chain up to this record.
	Last uint64
	Hash [32]byte
}

// State returns the stored state of the run with the seq and the hash of its last record.
func (e *RunEnd) State() *machine.State {
	if e.Head == nil {
		return nil
	}
	st := *e.Head
	st.Seq, st.PrevHash = e.Last, e.Hash
	return &st
}

// EndOf reads the end of a run's journal. If the run does not exist, the error is machine.ErrNoRun.
func EndOf(txn *Txn, ns uint32, run string) (end RunEnd, err error) {
	if end.Head, err = StoredHead(txn, ns, run); err != nil {
		return end, err
	}
	end.Last, end.Hash = end.Head.Seq, end.Head.PrevHash
	err = EachAfter(txn, HeadKey(ns, run), end.Head.Seq, func(value []byte) (int, error) {
		_, records, err := codec.EntrySpan(value)
		end.Last, end.Hash = end.Last+uint64(records), codec.EntryHash(value)
		return records, err
	})
	return end, err
}

// RunExists reports whether the run exists: a run exists as long as its head (stored current state) does.
func RunExists(txn *Txn, ns uint32, run string) (bool, error) { return txn.Has(HeadKey(ns, run)) }
