package layout

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// StoredHead returns the stored head of a run. The head may be older than the last entry, see headDue.
// If the run does not exist, the error is machine.ErrNoRun.
func StoredHead(txn *Txn, ns uint32, run string) (*machine.State, error) {
	value, err := Get(txn, HeadKey(ns, run))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, Gone(txn, ns, run, machine.ErrNoRun)
	}
	return txn.Head(value)
}

// TailOf returns the entries after a stored head.
func TailOf(txn *Txn, ns uint32, head *machine.State) ([]machine.Entry, error) {
	var tail []machine.Entry
	err := EachAfter(txn, HeadKey(ns, head.RunID), head.Seq, func(value []byte) (int, error) {
		e, err := txn.Entry(head.RunID, value)
		tail = append(tail, e)
		return len(e.Records), err
	})
	return tail, err
}

// EachAfter calls visit for the entries of a run after the record seq. visit must return the number of
// records in the entry, so that EachAfter can find the next entry.
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

// AnyFrom reports whether there is a key that consists of the prefix p and a number of at least n.
func AnyFrom(txn *Txn, p []byte, n uint64) bool {
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	it.Seek(Number(bytes.Clone(p), n))
	return Has(it, p)
}

// LastSeq returns the seq of a run's last record. It returns 0 if the run does not exist.
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

// Unlisted returns the artifact versions in the entries after a stored head, because no row contains
// them yet. The head contains every artifact and its mode, see firstWrites.
func Unlisted(head *machine.State, tail []machine.Entry) []machine.ArtifactVersion {
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

// HeadSeq returns the seq of a run's stored head. It returns 0 if the run does not exist.
func HeadSeq(txn *Txn, head []byte) (uint64, error) {
	value, err := Get(txn, head)
	if err != nil || value == nil {
		return 0, err
	}
	return codec.HeadSeq(value)
}

// EachPlace calls visit for every cursor of a namespace, beginning at the cursor from, in order and
// including gaps. It stops when visit returns false. If a cursor between two rows is missing, it
// returns damage.
func EachPlace(txn *Txn, ns uint32, from uint64, visit func(cursor uint64, place codec.EntryRef) (bool, error)) error {
	p := Prefix(make([]byte, 0, 5), KindCursor, ns)
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Seek(CursorKey(nil, ns, from)); Has(it, p); it.Next() {
		cursor, places, err := readEntryRefs(it)
		if err != nil {
			return err
		}
		if cursor > from {
			return Damaged("", "a row of the order of everything is missing: cursor %d, the next is %d", from, cursor)
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

// readEntryRefs decodes a row of cursors. first is the cursor of its first entry.
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
		err = Damaged("", "the row of cursor %d has %d entries", last, len(places))
	}
	return last + 1 - uint64(len(places)), places, err
}

// EntryAt reads the entry that a cursor refers to. It also returns the size of the entry's value in
// bytes.
func EntryAt(txn *Txn, ns uint32, at codec.EntryRef) (machine.Entry, int, error) {
	value, err := Get(txn, EntryKey(ns, at.Run, at.First))
	if err == nil && value == nil {
		err = Damaged("", "run %q, entry %d is missing", at.Run, at.First)
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

// EachRow calls visit for the rows under a prefix. It passes copies of the key and the value.
func EachRow(ctx context.Context, view func(func(txn *Txn) error) error, p []byte, visit func(key, value []byte) error) error {
	return view(func(txn *Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Rewind(); Has(it, p); it.Next() {
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

// LastEntry identifies a journal entry by its cursor. A cursor of 0 means no entry. Hash is the
// hash of the chain after the entry.
type LastEntry struct {
	Ns     uint32
	Cursor uint64
	Hash   [32]byte
}
