package compact

import (
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// pending bounds the batches that wait to be written: each has some megabytes.
const pending = 2

// Copy writes the rows of a database into an empty one, each at its version, and says how
// many there are.
func Copy(ctx context.Context, from, to *badger.DB) (rows int64, err error) {
	txn := from.NewTransactionAt(from.MaxVersion(), false)
	defer txn.Discard()
	batch := to.NewManagedWriteBatch()
	defer batch.Cancel()
	batch.SetMaxPendingTxns(pending)
	it := txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return rows, err
		}
		value, err := layout.CopyOf(it.Item())
		if err != nil {
			return rows, err
		}
		if err := batch.SetEntryAt(badger.NewEntry(it.Item().KeyCopy(nil), value), it.Item().Version()); err != nil {
			return rows, err
		}
		rows++
	}
	return rows, errors.Join(batch.Flush(), to.Flatten(1))
}
