package store

import (
	"context"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// Journal returns entries of all runs with cursor > after, in cursor order, and
// the cursor scanned so far. At most 256 entries and about 1 MiB are read.
func (s *Store) Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error) {
	page = bound(page)
	tail := s.reads.tail(ns)
	if after >= tail {
		return nil, after, nil
	}
	out := make([]machine.Entry, 0, min(uint64(page.Records), tail-after))
	read := 0
	err := s.view(func(txn *badger.Txn) error {
		return eachPlace(txn, ns, after+1, func(cursor uint64, place codec.Place) (bool, error) {
			if cursor > tail || len(out) == page.Records || read >= page.Bytes || ctx.Err() != nil {
				return false, ctx.Err()
			}
			e, n, err := entryAt(txn, ns, place)
			if err != nil {
				return false, fmt.Errorf("cursor %d: %w", cursor, err)
			}
			out, read, after = append(out, e), read+n, cursor
			return true, nil
		})
	})
	if err == nil && len(out) == 0 {
		err = damage("", "a row of the order of everything is missing at cursor %d", after+1)
	}
	if err != nil {
		return nil, after, fmt.Errorf("journal: %w", err)
	}
	return out, after, nil
}

// eachPlace visits the entries of a namespace from a cursor on, in order, until visit
// says false. A cursor that no row has is damage.
func eachPlace(txn *badger.Txn, ns uint32, from uint64, visit func(cursor uint64, place codec.Place) (bool, error)) error {
	p := prefix(make([]byte, 0, 5), kindCursor, ns)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: p})
	defer it.Close()
	for it.Seek(cursorKey(nil, ns, from)); has(it, p); it.Next() {
		cursor, places, err := readPlaces(it.Item())
		if err != nil {
			return err
		}
		if cursor > from {
			return damage("", "a row of the order of everything is missing: cursor %d, the next is %d", from, cursor)
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

// readPlaces reads a row of cursors and the cursor of its first entry.
func readPlaces(item *badger.Item) (first uint64, places []codec.Place, err error) {
	last, err := lastNumber(item.Key(), item.Key()[:min(5, len(item.Key()))])
	if err != nil {
		return 0, nil, err
	}
	err = valueOf(item, func(v []byte) error {
		places, err = codec.DecodePlaces(v)
		return err
	})
	if err == nil && uint64(len(places)) > last {
		err = damage("", "the row of cursor %d has %d entries", last, len(places))
	}
	return last + 1 - uint64(len(places)), places, err
}

// entryAt reads the entry at a place that was given out, and its size.
func entryAt(txn *badger.Txn, ns uint32, at codec.Place) (machine.Entry, int, error) {
	value, err := get(txn, entryKey(ns, at.Run, at.First))
	if err == nil && value == nil {
		err = damage("", "run %q, entry %d is missing", at.Run, at.First)
	}
	if err != nil {
		return machine.Entry{}, 0, err
	}
	e, err := codec.DecodeEntry(at.Run, value)
	if err != nil {
		return e, 0, fmt.Errorf("run %q, entry %d: %w", at.Run, at.First, err)
	}
	return e, len(value), nil
}

// Tail is the newest cursor of a namespace, 0 if it holds nothing.
func (s *Store) Tail(ctx context.Context, ns uint32) (uint64, error) {
	return s.reads.tail(ns), ctx.Err()
}
