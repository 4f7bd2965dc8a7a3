package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// Journal returns entries of all runs with cursor > after, in cursor order, and
// the cursor scanned so far. At most 256 entries and about 1 MiB are read.
// Cursors are dense, so that the next key is known: no scan is needed.
func (s *Store) Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error) {
	page = bound(page)
	tail := s.reads.tail(ns)
	if after >= tail {
		return nil, after, nil
	}
	out := make([]machine.Entry, 0, min(uint64(page.Records), tail-after))
	err := s.view(func(txn *badger.Txn) error {
		read := 0
		for after < tail && len(out) < page.Records && read < page.Bytes && ctx.Err() == nil {
			e, n, err := entryAt(txn, ns, after+1)
			if err != nil {
				return fmt.Errorf("cursor %d: %w", after+1, err)
			}
			out, read, after = append(out, e), read+n, after+1
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, after, fmt.Errorf("journal: %w", err)
	}
	return out, after, nil
}

// entryAt reads the entry at a cursor that was given out, and its size.
func entryAt(txn *badger.Txn, ns uint32, cursor uint64) (machine.Entry, int, error) {
	var run string
	var first uint64
	item, err := txn.Get(cursorKey(nil, ns, cursor))
	if errors.Is(err, badger.ErrKeyNotFound) {
		err = damage("", "a row of the order of everything is missing")
	}
	if err != nil {
		return machine.Entry{}, 0, err
	}
	err = valueOf(item, func(v []byte) error {
		run, first, err = codec.DecodePlace(v)
		return err
	})
	if err != nil {
		return machine.Entry{}, 0, err
	}
	value, err := get(txn, entryKey(ns, run, first))
	if err == nil && value == nil {
		err = damage("", "run %q, entry %d is missing", run, first)
	}
	if err != nil {
		return machine.Entry{}, 0, err
	}
	e, err := codec.DecodeEntry(run, value)
	if err != nil {
		return e, 0, fmt.Errorf("run %q, entry %d: %w", run, first, err)
	}
	return e, len(value), nil
}

// Tail is the newest cursor of a namespace, 0 if it holds nothing.
func (s *Store) Tail(ctx context.Context, ns uint32) (uint64, error) {
	return s.reads.tail(ns), ctx.Err()
}
