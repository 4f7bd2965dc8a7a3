package badgerkv

import (
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// pending limits the number of batches that wait to be written. Each takes some megabytes of memory.
const pending = 2

// Copy copies the rows of an engine into an empty database. The version of each row is the number
// of its group. Copy returns the number of rows.
func Copy(ctx context.Context, from kv.KV, to *DB) (rows int64, err error) {
	view := kv.On(from.View(from.Last()))
	defer view.Close()
	batch := to.db.NewManagedWriteBatch()
	defer batch.Cancel()
	batch.SetMaxPendingTxns(pending)
	it := view.Scan(kv.Range{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return rows, err
		}
		value, err := layout.CopyOf(it)
		if err != nil {
			return rows, err
		}
		if err := batch.SetEntryAt(badger.NewEntry(it.KeyCopy(), value), it.Group()); err != nil {
			return rows, err
		}
		rows++
	}
	return rows, errors.Join(view.Err(), batch.Flush(), to.db.Flatten(1))
}
