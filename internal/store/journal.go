package store

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Journal returns the entries of all runs of a namespace whose cursor is greater than after, in the
// order of cursors, and the last cursor that it has read. It reads at most 256 entries and about 1 MiB.
// It skips entries of deleted runs. If it returns no entry, there is no entry up to the returned
// cursor.
func (s *Store) Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error) {
	page = bound(page)
	tail := s.readTimestamps.tail(ns)
	if after >= tail {
		return nil, after, nil
	}
	out := make([]machine.Entry, 0, min(uint64(page.Records), tail-after))
	read := 0
	err := s.view(func(txn *layout.Txn) error {
		return layout.EachPlace(txn, ns, after+1, func(cursor uint64, place codec.EntryRef) (bool, error) {
			if cursor > tail || len(out) == page.Records || read >= page.Bytes || ctx.Err() != nil {
				return false, ctx.Err()
			}
			if place.Gap() {
				after = cursor
				return true, nil
			}
			e, n, err := layout.EntryAt(txn, ns, place)
			if err != nil {
				return false, fmt.Errorf("cursor %d: %w", cursor, err)
			}
			out, read, after = append(out, e), read+n, cursor
			return true, nil
		})
	})
	if err == nil && len(out) == 0 && after < tail {
		err = layout.Damaged("", "a row of the order of everything is missing at cursor %d", after+1)
	}
	if err != nil {
		return nil, after, fmt.Errorf("journal: %w", err)
	}
	return out, after, nil
}

// Tail returns the newest cursor of a namespace, or 0 if the namespace is empty.
func (s *Store) Tail(ctx context.Context, ns uint32) (uint64, error) {
	return s.readTimestamps.tail(ns), ctx.Err()
}
