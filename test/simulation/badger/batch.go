package badger

import (
	"maps"
	"slices"

	upstream "github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// Entry is a row to be written.
type Entry = upstream.Entry

// NewEntry makes one.
var NewEntry = upstream.NewEntry

// WriteBatch writes rows, each at a version of its own.
type WriteBatch struct {
	db     *DB
	groups map[uint64]*disk.Group
}

// NewManagedWriteBatch begins a batch.
func (db *DB) NewManagedWriteBatch() *WriteBatch {
	return &WriteBatch{db: db, groups: map[uint64]*disk.Group{}}
}

// SetMaxPendingTxns bounds nothing: a batch is written when it is flushed.
func (b *WriteBatch) SetMaxPendingTxns(int) {}

// SetEntryAt adds a row.
func (b *WriteBatch) SetEntryAt(e *Entry, ts uint64) error {
	b.add(disk.Op{Key: e.Key, Value: e.Value}, ts)
	return nil
}

// DeleteAt adds the removal of a row.
func (b *WriteBatch) DeleteAt(key []byte, ts uint64) error {
	b.add(disk.Op{Key: key, Delete: true}, ts)
	return nil
}

func (b *WriteBatch) add(op disk.Op, ts uint64) {
	if b.groups[ts] == nil {
		b.groups[ts] = &disk.Group{TS: ts}
	}
	b.groups[ts].Ops = append(b.groups[ts].Ops, op)
}

// Flush writes the rows in the order of their versions.
func (b *WriteBatch) Flush() error {
	for _, ts := range slices.Sorted(maps.Keys(b.groups)) {
		if err := b.db.disk.Append(b.db.life, b.groups[ts], b.db.sync); err != nil {
			return err
		}
		b.db.apply(b.groups[ts])
	}
	b.Cancel()
	return nil
}

// Cancel drops the rows that are not written.
func (b *WriteBatch) Cancel() { b.groups = nil }
