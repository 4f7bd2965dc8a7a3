package layout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// StoredHead returns the stored head of a run, which is its state after one of its last records. It may
// be older than the last entry, see headDue. If the run does not exist, the error is machine.ErrNoRun.
func StoredHead(txn *Txn, ns uint32, run string) (*machine.State, error) {
	value, err := Get(txn, HeadKey(ns, run))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, MissingRunError(txn, ns, run, machine.ErrNoRun)
	}
	return txn.Head(value)
}

// TailOf returns the journal entries of a run after head, its stored state.
func TailOf(txn *Txn, ns uint32, head *machine.State) ([]machine.Entry, error) {
	var tail []machine.Entry
	err := EachAfter(txn, HeadKey(ns, head.RunID), head.Seq, func(value []byte) (int, error) {
		e, err := txn.Entry(head.RunID, value)
		tail = append(tail, e)
		return len(e.Records), err
	})
	return tail, err
}

// EachAfter calls visit for the journal entries of a run after the record seq. head is the key of the
// run's stored state. visit must return the number of records in the entry, so that EachAfter finds the
// next entry.
func EachAfter(txn *Txn, head []byte, seq uint64, visit func(value []byte) (records int, err error)) error {
	key := make([]byte, 0, len(head)+8)
	for {
		value, err := Get(txn, EntryOf(key, head, seq+1))
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

// AnyWith reports whether there is a key that begins with p.
func AnyWith(txn *Txn, p []byte) bool {
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	it.Rewind()
	return AtPrefix(it, p)
}

// AnyFrom reports whether there is a key that consists of the prefix p and a number that is at least n.
func AnyFrom(txn *Txn, p []byte, n uint64) bool {
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	it.Seek(Number(bytes.Clone(p), n))
	return AtPrefix(it, p)
}

// LastSeq returns the seq of a run's last record. head is the key of the run's stored state. If the run
// does not exist, LastSeq returns 0.
func LastSeq(txn *Txn, head []byte) (uint64, error) {
	seq, err := HeadSeq(txn, head)
	if err != nil || seq == 0 {
		return seq, err
	}
	err = EachAfter(txn, head, seq, func(value []byte) (int, error) {
		_, records, err := codec.EntrySpan(value)
		seq += uint64(records)
		return records, err
	})
	return seq, err
}

// UnlistedVersions returns the artifact versions that the entries after a stored head (state of a run) write.
// No artifact row contains these versions yet. The head has every artifact and its mode, see
// firstWrites.
func UnlistedVersions(head *machine.State, tail []machine.Entry) []machine.ArtifactVersion {
	var versions []machine.ArtifactVersion
	for i := range tail {
		for j := range tail[i].Records {
			r := &tail[i].Records[j]
			for _, w := range machine.ArtifactWrites(r.Body) {
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

// HeadSeq returns the seq of a run's stored head (current state). head is the key of this row. If the
// run does not exist, HeadSeq returns 0.
func HeadSeq(txn *Txn, head []byte) (uint64, error) {
	value, err := Get(txn, head)
	if err != nil || value == nil {
		return 0, err
	}
	return codec.HeadSeq(value)
}

// EachPlace calls visit for every cursor of a namespace, in order, beginning at the cursor from. For a deleted
// entry, place is a gap. EachPlace stops when visit returns false. If a cursor before a cursor row is missing,
// it returns damage.
func EachPlace(txn *Txn, ns uint32, from uint64, visit func(cursor uint64, place codec.EntryRef) (bool, error)) error {
	p := Prefix(make([]byte, 0, 5), KindCursor, ns)
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Seek(CursorKey(nil, ns, from)); AtPrefix(it, p); it.Next() {
		cursor, places, err := readEntryRefs(it)
		if err != nil {
			return err
		}
		if cursor > from {
			return NewDamage("", "a row of the order of everything is missing: cursor %d, the next is %d", from, cursor)
		}
		for i := from - cursor; i < uint64(len(places)); i++ {
			if more, err := visit(from, places[i]); err != nil || !more {
				return err
			}
			from++
		}
	}
	return nil
}

// EachPlaceBack calls visit for every cursor of a namespace, in the opposite order, beginning at the cursor from, which must exist. For a deleted
// entry, place is a gap. EachPlaceBack stops when visit returns false. If a cursor is missing, it returns damage.
func EachPlaceBack(txn *Txn, ns uint32, from uint64, visit func(cursor uint64, place codec.EntryRef) (bool, error)) error {
	p := Prefix(make([]byte, 0, 5), KindCursor, ns)
	row, err := cursorRowOf(txn, p, CursorKey(nil, ns, from))
	if err != nil {
		return err
	}
	it := txn.Scan(kv.Range{Prefix: p, Reverse: true})
	defer it.Close()
	for it.Seek(row); AtPrefix(it, p) && from > 0; it.Next() {
		first, places, err := readEntryRefs(it)
		if err != nil {
			return err
		}
		if end := first + uint64(len(places)); from < first || from >= end {
			return NewDamage("", "a row of the order of everything is missing: cursor %d, the row before it ends with %d", from, end-1)
		}
		for ; from >= first; from-- {
			if more, err := visit(from, places[from-first]); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// cursorRowOf returns the key of the cursor row that contains a cursor, whose own key is given. A row has the key of its last cursor.
func cursorRowOf(txn *Txn, p, cursor []byte) ([]byte, error) {
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	it.Seek(cursor)
	if !AtPrefix(it, p) {
		return nil, NewDamage("", "the row of the order of everything with the key %x is missing", cursor)
	}
	return slices.Clone(it.Key()), nil
}

// readEntryRefs decodes a cursor row. first is the cursor of its first entry.
func readEntryRefs(item *kv.Iterator) (first uint64, places []codec.EntryRef, err error) {
	last, err := LastNumber(item.Key(), item.Key()[:min(5, len(item.Key()))])
	if err != nil {
		return 0, nil, err
	}
	err = ValueOf(item, func(v []byte) error {
		places, err = codec.DecodeEntryRefs(v)
		return err
	})
	if err == nil && uint64(len(places)) > last {
		err = NewDamage("", "the row of cursor %d has %d entries", last, len(places))
	}
	return last + 1 - uint64(len(places)), places, err
}

// EntryAt reads the journal entry that a cursor refers to. It also returns the size of the entry's
// value in bytes.
func EntryAt(txn *Txn, ns uint32, at codec.EntryRef) (machine.Entry, int, error) {
	value, err := Get(txn, EntryKey(ns, at.Run, at.First))
	if err == nil && value == nil {
		err = NewDamage("", "run %q, entry %d is missing", at.Run, at.First)
	}
	if err != nil {
		return machine.Entry{}, 0, err
	}
	e, err := txn.Entry(at.Run, value)
	if err != nil {
		return e, 0, fmt.Errorf("run %q, entry %d: %w", at.Run, at.First, err)
	}
	return e, len(value), nil
}

// EachRow calls visit for the rows whose keys begin with p. It passes copies of the key and the value.
func EachRow(ctx context.Context, view func(func(txn *Txn) error) error, p []byte, visit func(key, value []byte) error) error {
	return view(func(txn *Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Rewind(); AtPrefix(it, p); it.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			value, err := CopyOf(it)
			if err == nil {
				err = visit(it.KeyCopy(), value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// LastEntry identifies a journal entry by its cursor. A cursor of 0 means no entry. Hash is the hash of
// the run's chain after the entry.
type LastEntry struct {
	Ns     uint32
	Cursor uint64
	Hash   [32]byte
}

// Txn reads rows at one moment and decrypts the rows of erasable runs.
type Txn struct {
	kv.View
	// Keys provides the keys of erasable runs. If it is nil, a read of an encrypted row returns an
	// error.
	Keys Keyring
}

// Keyring provides the keys of erasable runs, and the time at which a key was destroyed, in Unix
// nanoseconds.
type Keyring interface {
	codec.Keys
	DestroyedAt(slot uint64) int64
}

// Entry decodes the value of a journal entry. run is the id of its run. If the run was erased, the
// entry contains only its readable part.
func (t *Txn) Entry(run string, value []byte) (machine.Entry, error) {
	return codec.ReadEntry(run, value, t.Keys)
}

// Head decodes a head (stored state) or a checkpoint. If the run was erased, the state contains only its
// readable part and what is known about the erasure.
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
		// The row of the erasure is missing because the rows come from another store, in which the key
		// was destroyed.
		st.Erased.At = t.Keys.DestroyedAt(st.Key)
		return st, nil
	}
	st.Erased = e
	return st, nil
}

// Dedupe decodes an idempotency row (a used request id). erased means that the hash of the request's
// body is lost because the run was erased.
func (t *Txn) Dedupe(key machine.Dedupe, value []byte) (d machine.Dedupe, erased bool, err error) {
	return codec.ReadDedupe(key, value, t.Keys)
}

// ErasedKey returns the key of the row which records that a run's values were erased.
func ErasedKey(ns uint32, run string) []byte {
	return RunKey(make([]byte, 0, 40), KindErased, ns, run)
}

// ErasedOf returns the row that records the erasure of a run's values. It returns nil if there is no
// such row.
func ErasedOf(txn *Txn, ns uint32, run string) (*machine.Erased, error) {
	value, err := Get(txn, ErasedKey(ns, run))
	if err != nil || value == nil {
		return nil, err
	}
	e, err := codec.DecodeErased(value)
	e.RunID = run
	return &e, err
}

// Withheld returns an error if the values of a run were erased. It returns nil if they were not or if
// the run does not exist.
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

// SealedRow reports whether the value of a row is encrypted with the key of its run.
func SealedRow(op Op) bool {
	switch op.Key[0] {
	case KindHead, KindEntry, KindSnapshot, KindRunID, KindCallerID:
		_, ok := codec.KeySlot(op.Value)
		return ok
	}
	return false
}
