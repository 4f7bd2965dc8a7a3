package store

import (
	"context"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/inspect"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// scrub proves the tables of the open database, one after the other: Badger takes
// a block that fails its checksum for the end of its table, in reads and, worse, in
// the compaction that then deletes the table. A damaged table fails the store.
func (s *Store) scrub(ctx context.Context) error {
	open := s.db.Tables()
	tables, err := inspect.OpenTables(s.opts.Dir, s.opts.EncryptionKey)
	if err != nil {
		return err
	}
	for _, t := range open {
		if ctx.Err() != nil {
			return nil
		}
		if _, err := tables.Verify(t.ID); errors.Is(err, layout.ErrDamaged) && s.hasTable(t.ID) {
			return err
		}
	}
	return nil
}

// hasTable: a compaction may have deleted it meanwhile.
func (s *Store) hasTable(id uint64) bool {
	return slices.ContainsFunc(s.db.Tables(), func(t badger.TableInfo) bool { return t.ID == id })
}
