package layout

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// DeletedKey is the key of what is kept of a run that was deleted.
func DeletedKey(ns uint32, run string) []byte {
	return RunKey(make([]byte, 0, 40), KindDeleted, ns, run)
}

// DeletedOf reads what is kept of a run that was deleted; nil: it was not.
func DeletedOf(txn *Txn, ns uint32, run string) (*machine.Deleted, error) {
	value, err := Get(txn, DeletedKey(ns, run))
	if err != nil || value == nil {
		return nil, err
	}
	d, err := codec.DecodeDeleted(value)
	d.RunID = run
	return &d, err
}

// Gone is the error for a run that is not there: miss, and the refusal RUN_DELETED if it
// was deleted.
func Gone(txn *Txn, ns uint32, run string, miss error) error {
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

// RemovalKey is the mark of a run of which rows are still being removed.
func RemovalKey(ns uint32, run string) []byte { return DropKey(DeletedKey(ns, run)) }

// RunEnd is where the journal of a run ends.
type RunEnd struct {
	// Head is the stored one.
	Head *machine.State
	// Last is the last record, Hash the chain up to it.
	Last uint64
	Hash [32]byte
}

// State is the head as of the last record.
func (e *RunEnd) State() *machine.State {
	if e.Head == nil {
		return nil
	}
	st := *e.Head
	st.Seq, st.PrevHash = e.Last, e.Hash
	return &st
}

// EndOf reads where the journal of a run ends; machine.ErrNoRun.
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

// There: the run has a head, so that its rows are to be seen.
func There(txn *Txn, ns uint32, run string) (bool, error) { return txn.Has(HeadKey(ns, run)) }
