package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// These constants limit one read, by the number of records and by the bytes. They limit how long a
// transaction stays open.
const (
	pageRecords = 256
	pageBytes   = 1 << 20
)

// bound sets the defaults of a page and lowers its limits to the maximum.
func bound(p machine.Page) machine.Page {
	if p.Records <= 0 || p.Records > pageRecords {
		p.Records = pageRecords
	}
	if p.Bytes <= 0 || p.Bytes > pageBytes {
		p.Bytes = pageBytes
	}
	return p
}

// Head returns the state of a run. If the run does not exist, the error is machine.ErrNoRun. New inputs
// continue from this state. Therefore a missing entry that is followed by later entries is treated as
// damage, and not as the end of the run.
func (s *Store) Head(ctx context.Context, ns uint32, run string) (*machine.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var st *machine.State
	err := s.view(func(txn *layout.Txn) (err error) {
		st, err = s.headAt(ctx, txn, ns, run)
		if err == nil && layout.AnyFrom(txn, layout.RunKey(nil, layout.KindEntry, ns, run), st.Seq+1) {
			err = layout.Damaged("", "entry %d is missing, later ones are there", st.Seq+1)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("head of run %q: %w", run, err)
	}
	return st, nil
}

// Entries returns the entries of a run that contain records >= from, in order. For an unknown run it
// returns none. For a deleted run it returns an error. It reads at most 256 entries and about 1 MiB.
func (s *Store) Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error) {
	page = bound(page)
	var out []machine.Entry
	err := s.view(func(txn *layout.Txn) error {
		// Every entry up to the head must exist.
		last, err := layout.HeadSeq(txn, layout.HeadKey(ns, run))
		if err == nil && last == 0 {
			err = layout.Gone(txn, ns, run, nil)
		}
		if err != nil || last == 0 {
			return err
		}
		first, err := firstOf(txn, ns, run, from)
		if err != nil {
			return err
		}
		if first == 0 {
			return layout.Damaged("", "there is no entry at or before record %d", from)
		}
		bytes := 0
		for len(out) < page.Records && bytes < page.Bytes && ctx.Err() == nil {
			value, err := layout.Get(txn, layout.EntryKey(ns, run, first))
			if err != nil {
				return err
			}
			if value == nil {
				if first > last {
					return nil
				}
				return layout.Damaged("", "entry %d is missing", first)
			}
			e, err := txn.Entry(run, value)
			if err != nil {
				return fmt.Errorf("entry %d: %w", first, err)
			}
			bytes += len(value)
			if first += uint64(len(e.Records)); first > from {
				out = append(out, e)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("entries of run %q: %w", run, err)
	}
	return out, nil
}

// Entry returns the entry that contains the record seq. If no entry contains it, the error is
// machine.ErrNoRecord.
func (s *Store) Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error) {
	var e machine.Entry
	err := s.view(func(txn *layout.Txn) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		first, err := firstOf(txn, ns, run, max(seq, 1))
		if err != nil {
			return err
		}
		value, err := layout.Get(txn, layout.EntryKey(ns, run, first))
		if err != nil {
			return err
		}
		if value == nil {
			return noRecord(txn, ns, run, seq)
		}
		e, err = txn.Entry(run, value)
		if err == nil && (seq < e.First || seq >= e.First+uint64(len(e.Records))) {
			return noRecord(txn, ns, run, seq)
		}
		return err
	})
	if err != nil {
		return e, fmt.Errorf("record %d of run %q: %w", seq, run, err)
	}
	return e, nil
}

// noRecord returns the error for a record that was not found. If the record must exist, this is damage.
// Otherwise it is machine.ErrNoRecord.
func noRecord(txn *layout.Txn, ns uint32, run string, seq uint64) error {
	last, err := layout.LastSeq(txn, layout.HeadKey(ns, run))
	if err == nil && seq >= 1 && seq <= last {
		err = layout.Damaged("", "the entry with record %d is missing", seq)
	}
	if err == nil && last == 0 {
		return layout.Gone(txn, ns, run, machine.ErrNoRecord)
	}
	if err == nil {
		err = machine.ErrNoRecord
	}
	return err
}

// firstOf returns the first record of the entry that contains the record seq. This is the last entry
// that begins at or before seq. It returns 0 if there is no such entry. A caller that reads page by
// page passes the first record of an entry, so firstOf tries this key before it scans backwards.
func firstOf(txn *layout.Txn, ns uint32, run string, seq uint64) (uint64, error) {
	if seq <= 1 {
		return 1, nil
	}
	if begins, err := txn.Has(layout.EntryKey(ns, run, seq)); err != nil || begins {
		return seq, err
	}
	p := layout.RunKey(nil, layout.KindEntry, ns, run)
	it := txn.Scan(kv.Range{Reverse: true, Prefix: p, KeysOnly: true})
	defer it.Close()
	it.Seek(layout.EntryKey(ns, run, seq))
	if !layout.Has(it, p) {
		return 0, nil
	}
	key := it.Key()
	if len(key) != len(p)+8 {
		return 0, fmt.Errorf("malformed entry key %x", key)
	}
	return binary.BigEndian.Uint64(key[len(p):]), nil
}

// Checkpoint returns the newest checkpoint of a run whose seq is not greater than the given seq. A
// replay starts from it. If Checkpoint returns nil, the replay must start at the first entry.
func (s *Store) Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error) {
	var st *machine.State
	err := s.view(func(txn *layout.Txn) error {
		p := layout.RunKey(nil, layout.KindSnapshot, ns, run)
		it := txn.Scan(kv.Range{Reverse: true, Prefix: p})
		defer it.Close()
		it.Seek(layout.Number(bytes.Clone(p), seq))
		if !layout.Has(it, p) {
			return ctx.Err()
		}
		value, err := layout.CopyOf(it)
		if err != nil {
			return err
		}
		st, err = txn.Head(value)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoint of run %q: %w", run, err)
	}
	return st, nil
}
