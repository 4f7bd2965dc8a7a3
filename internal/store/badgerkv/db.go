package badgerkv

import (
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// maxKey is the maximum size of a key that Badger accepts, in bytes.
const maxKey = 65_000

// DB is an open database.
type DB struct {
	db  *badger.DB
	log *diskspace.Logger
}

var _ kv.KV = (*DB)(nil)

// Open opens a database. If Badger panics because of unexpected files, Open returns a
// *[layout.Damage].
func Open(o Options) (db *DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, layout.Damaged("", "the database does not open: %v", p)
		}
	}()
	opened, err := badger.OpenManaged(o.badger())
	if err != nil {
		return nil, err
	}
	return &DB{db: opened, log: o.Log}, nil
}

// Badger returns the database. It is for the packages that maintain its files.
func (d *DB) Badger() *badger.DB { return d.db }

// Last returns the timestamp of the newest transaction.
func (d *DB) Last() uint64 { return d.db.MaxVersion() }

// Bounds returns Badger's limits, reduced by a reserve.
func (d *DB) Bounds() kv.Bounds {
	return kv.Bounds{Keys: int(d.db.MaxBatchCount()) - 64, Key: maxKey, Bytes: d.db.MaxBatchSize() - 64<<10, Apart: Apart}
}

// View returns a snapshot at the timestamp group.
func (d *DB) View(group uint64) kv.Snapshot { return (*snapshot)(d.db.NewTransactionAt(group, false)) }

// Hold keeps the version of a group readable until it is released. It does nothing, because Badger
// keeps the versions itself.
func (d *DB) Hold(group uint64) (kv.Held, error) { return held{d, group}, nil }

type held struct {
	db    *DB
	group uint64
}

func (h held) Group() uint64     { return h.group }
func (h held) View() kv.Snapshot { return h.db.View(h.group) }
func (h held) Close()            {}

// Batch begins a transaction that makes no reads.
func (d *DB) Batch() kv.Batch {
	return &batch{db: d, txn: d.db.NewTransactionAt(math.MaxUint64, true)}
}

// Release allows compactions to drop values that were superseded up to the group.
func (d *DB) Release(group uint64) { d.db.SetDiscardTs(group) }

// Sizes returns the disk space of the tree and of the value log, in bytes. Badger updates these numbers
// about once a minute.
func (d *DB) Sizes() (tree, log int64) { return d.db.Size() }

// Tables returns the numbers of the tables.
func (d *DB) Tables() []uint64 {
	tables := d.db.Tables()
	ids := make([]uint64, len(tables))
	for i := range tables {
		ids[i] = tables[i].ID
	}
	return ids
}

// Close flushes the memtable and closes the files.
func (d *DB) Close() error { return d.db.Close() }
