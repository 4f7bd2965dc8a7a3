package badgerengine

import (
	"bytes"
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// filler adds rows to a new database.
type filler struct {
	db    *DB
	batch *badger.WriteBatch
	rows  int64
	// disk refuses a row when the disk has no space for another table.
	disk *datadir.Disk
}

// pending limits the number of batches of a filler that wait to be written. Each takes some megabytes of memory.
const pending = 2

// fill adds the rows and then merges the tables if the disk has space for it.
func (f *filler) fill(write func(to *filler) error) error {
	f.batch = f.db.db.NewManagedWriteBatch()
	defer f.batch.Cancel()
	f.batch.SetMaxPendingTxns(pending)
	if err := errors.Join(write(f), f.batch.Flush()); err != nil {
		return err
	}
	tree, _ := f.db.Sizes()
	if f.disk.CheckNow(f.disk.Min+tree) != nil {
		return nil
	}
	return f.db.db.Flatten(1)
}

// add adds one version of a row. It does not keep the memory of the row.
func (f *filler) add(row datadir.FoundRow) error {
	f.rows++
	if err := f.disk.Check(int64(len(row.Key) + len(row.Value))); err != nil {
		return err
	}
	if row.Deleted {
		return f.batch.DeleteAt(bytes.Clone(row.Key), row.Group)
	}
	return f.batch.SetEntryAt(badger.NewEntry(bytes.Clone(row.Key), bytes.Clone(row.Value)), row.Group)
}

// copyRows adds all rows of a storage engine. The version of each row is the number of the commit that wrote it.
func (f *filler) copyRows(ctx context.Context, from kv.KV) error {
	view := kv.On(from.View(from.LastKey()))
	defer view.Close()
	it := view.Scan(kv.Range{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := layout.CopyOf(it)
		if err != nil {
			return err
		}
		if err := f.add(datadir.FoundRow{Key: it.Key(), Value: value, Group: it.Group()}); err != nil {
			return err
		}
	}
	return view.Err()
}
