package badgerengine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// maxKey is the maximum size of a key that Badger accepts, in bytes.
const maxKey = 65_000

// DB is an open database.
type DB struct {
	db  *badger.DB
	dir string
	log *Logger
}

var _ kv.KV = (*DB)(nil)

// openDB opens a Badger database. If Badger panics because of unexpected files, openDB returns a
// *[layout.Damage].
func openDB(o dbOptions) (db *DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, layout.NewDamage("", "the database does not open: %v", p)
		}
	}()
	opened, err := badger.OpenManaged(o.badger())
	if err != nil {
		return nil, err
	}
	return &DB{db: opened, dir: o.Dir, log: o.Log}, nil
}

// Badger returns the database. It is for the packages that maintain its files.
func (d *DB) Badger() *badger.DB { return d.db }

// LastKey returns the number of the newest commit, which is the timestamp of its transaction.
func (d *DB) LastKey() uint64 { return d.db.MaxVersion() }

// Bounds returns the maximum size of a commit: Badger's limits, reduced by a reserve.
func (d *DB) Bounds() kv.Bounds {
	return kv.Bounds{Keys: int(d.db.MaxBatchCount()) - 64, Key: maxKey, Bytes: d.db.MaxBatchSize() - 64<<10, Apart: ValueLogThreshold}
}

// View returns a snapshot of the database after the commit with the number group.
func (d *DB) View(group uint64) kv.Snapshot { return (*snapshot)(d.db.NewTransactionAt(group, false)) }

// Hold returns a handle whose views show the given commit group. Badger keeps all versions that Release
// was not called for, so Hold itself does nothing.
func (d *DB) Hold(group uint64) (kv.HeldGroup, error) { return heldSnapshot{d, group}, nil }

type heldSnapshot struct {
	db    *DB
	group uint64
}

func (h heldSnapshot) Group() uint64     { return h.group }
func (h heldSnapshot) View() kv.Snapshot { return h.db.View(h.group) }
func (h heldSnapshot) Close()            {}

// Batch begins a transaction that only writes.
func (d *DB) Batch() kv.Batch {
	return &batch{db: d, txn: d.db.NewTransactionAt(math.MaxUint64, true)}
}

// Release allows compactions to drop values that were superseded up to the commit with the number
// group.
func (d *DB) Release(group uint64) { d.db.SetDiscardTs(group) }

// Sizes returns the disk space of Badger's LSM tree and of its value log, in bytes. If the directory cannot be read, it
// returns 0. Badger's own Size is always 0 without Badger's metrics.
func (d *DB) Sizes() (tree, log int64) {
	tree, log, err := datadir.DiskBytes(d.dir)
	if err != nil {
		return 0, 0
	}
	return tree, log
}

// Tables returns the numbers of the table files of the LSM tree.
func (d *DB) Tables() []uint64 {
	tables := d.db.Tables()
	ids := make([]uint64, len(tables))
	for i := range tables {
		ids[i] = tables[i].ID
	}
	return ids
}

// Close flushes the memtable to a table and closes the files.
func (d *DB) Close() error { return d.db.Close() }

type batch struct {
	db  *DB
	txn *badger.Txn
	// err is the first error that Badger returned for a pair.
	err error
}

func (b *batch) Set(key, value []byte) { b.took(b.txn.Set(key, value)) }

func (b *batch) Delete(key []byte) { b.took(b.txn.Delete(key)) }

func (b *batch) took(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Commit stores the batch and calls done with the outcome. If Badger refused a pair before, nothing is stored.
// After every error of the commit itself the outcome is unknown, even if Badger only logged the error.
func (b *batch) Commit(group uint64, done func(kv.Result)) {
	if b.err != nil {
		b.txn.Discard()
		done(kv.Result{Outcome: kv.NotStored, Err: b.err})
		return
	}
	err := b.txn.CommitAt(group, func(err error) { done(b.db.outcome(err)) })
	if err != nil {
		done(kv.Result{Err: err})
	}
}

func (d *DB) outcome(err error) kv.Result {
	if err == nil {
		err = d.log.Failure()
	}
	if err != nil {
		return kv.Result{Err: err}
	}
	return kv.Result{Outcome: kv.Stored}
}

// snapshot and cursor are Badger's own types under other names, so that a read does not allocate an
// object for them.
type (
	snapshot badger.Txn
	cursor   badger.Iterator
)

func (s *snapshot) txn() *badger.Txn { return (*badger.Txn)(s) }

func (s *snapshot) Group() uint64 { return s.txn().ReadTs() }

func (s *snapshot) Close() { s.txn().Discard() }

// Get implements [kv.Snapshot].
func (s *snapshot) Get(key []byte) ([]byte, error) {
	item, err := s.txn().Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if inTree(item) {
		// The item and its memory belong only to this reader, so the value is returned without a copy.
		value, err := readValue(item)
		if value == nil && err == nil {
			value = []byte{}
		}
		return value, err
	}
	return copyValue(item, nil)
}

func (s *snapshot) Has(key []byte) (bool, error) {
	_, err := s.txn().Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Scan returns a cursor over a range of keys. It fetches a value only when the caller requests it.
func (s *snapshot) Scan(r kv.Range) kv.Cursor {
	return (*cursor)(s.txn().NewIterator(badger.IteratorOptions{Prefix: r.Prefix, Reverse: r.Reverse, SinceTs: r.Since}))
}

// inTree reports whether a value is stored in the LSM tree next to its key, and not in the value log, so that it can be
// returned without a copy. For a value in the tree, Badger returns memory of the item. For a value in the value log, it
// returns a part of a mapped file, which is valid only during the call.
func inTree(item *badger.Item) bool { return item.EstimatedSize() == item.KeySize()+item.ValueSize() }

// readValue returns a value that is stored in the LSM tree, without copying it. It is valid as long as its
// item.
func readValue(item *badger.Item) (value []byte, err error) {
	err = item.Value(func(v []byte) error {
		value = v
		return nil
	})
	return value, err
}

// copyValue copies a value into dst, or into new memory if dst is nil. If a value is missing from the
// value log or its checksum is wrong, Badger only logs this and returns no bytes and no error. In this
// case copyValue returns [kv.ErrLost].
func copyValue(item *badger.Item, dst []byte) ([]byte, error) {
	size := max(item.ValueSize(), 0)
	if dst == nil {
		dst = make([]byte, 0, size)
	}
	value, err := item.ValueCopy(dst)
	if err != nil {
		return nil, err
	}
	if len(value) == 0 && size > 0 {
		return nil, kv.ErrLost
	}
	return value, nil
}

func (c *cursor) it() *badger.Iterator { return (*badger.Iterator)(c) }

func (c *cursor) Seek(key []byte) error {
	c.it().Seek(key)
	return nil
}

func (c *cursor) Next() error {
	c.it().Next()
	return nil
}

func (c *cursor) Valid() bool { return c.it().Valid() }

func (c *cursor) Key() []byte { return c.it().Item().Key() }

func (c *cursor) Value(buf []byte) (value, grown []byte, err error) {
	item := c.it().Item()
	if inTree(item) {
		value, err = readValue(item)
		return value, buf, err
	}
	if value, err = copyValue(item, buf); err != nil {
		return nil, buf, err
	}
	return value, value, nil
}

func (c *cursor) ValueCopy() ([]byte, error) { return copyValue(c.it().Item(), nil) }

func (c *cursor) Size() int64 { return c.it().Item().ValueSize() }

func (c *cursor) StoredSize() int64 { return c.it().Item().EstimatedSize() }

func (c *cursor) Group() uint64 { return c.it().Item().Version() }

func (c *cursor) Close() { c.it().Close() }

// dbOptions configure a database. All fields except EncryptionKey are required.
type dbOptions struct {
	Dir           string
	Log           *Logger
	EncryptionKey []byte
	DataKeyAge    time.Duration
	// MemTableSize is the size of the memtable in bytes. Badger accepts 15 % of it in one transaction,
	// which limits the size of a commit.
	MemTableSize           int64
	BlockCache, IndexCache int64
}

// ValueLogThreshold is the size in bytes from which a value is stored in the value log and not in the LSM tree.
// Compactions do not copy values of the value log.
const ValueLogThreshold = 16 << 10

// badger returns Badger's options. docs/dev/adr/0004-badger-options.md has the reasons.
func (o dbOptions) badger() badger.Options {
	return badger.DefaultOptions(o.Dir).
		WithLogger(o.Log).
		WithEncryptionKey(o.EncryptionKey).
		WithEncryptionKeyRotationDuration(o.DataKeyAge).
		WithSyncWrites(true).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithBypassLockGuard(true).
		WithVerifyValueChecksum(true).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithNumMemtables(2).
		WithMemTableSize(o.MemTableSize).
		WithBlockCacheSize(o.BlockCache).
		WithIndexCacheSize(o.IndexCache).
		WithValueLogFileSize(64 << 20).
		WithValueThreshold(ValueLogThreshold).
		WithCompression(options.Snappy).
		WithNumCompactors(2)
}

// Close flushes and closes the files and releases the lock. It waits for the reclaimer that
// [Directory.StartMaintenance] started. The reclaimer's context must already have ended. If the directory was
// deleted or replaced, or if the disk has no space for a flush, Close only returns an error, and the files stay
// open.
func (d *Directory) Close() error {
	if d.Reclaimer == nil {
		return errors.Join(d.closeFlushed(), d.closeHead())
	}
	if err := d.Head.CheckPresent(); err != nil {
		return fmt.Errorf("store closed: %w", err)
	}
	// When Badger closes, it flushes its memtable through a memory map. On a full disk this would kill
	// the process. The write-ahead log contains all data, so on a full disk neither the flush nor a
	// waiting compaction is done.
	if err := d.Disk.Await(d.Reclaimer.Done(), d.Log.Unflushed, d.MinTableSpace()); err != nil {
		return fmt.Errorf("store closed without flushing, nothing is lost: %w", err)
	}
	return errors.Join(d.Head.Sync(), d.closeFlushed(), d.closeHead())
}

func (d *Directory) closeHead() error {
	if d.Head == nil {
		return nil
	}
	return d.Head.Close()
}

// closeFlushed closes the database. If Badger cannot flush its memtable, closeFlushed returns an error, because
// otherwise Badger would retry forever. No data is lost, because the write-ahead log contains it. The directory
// then stays locked until the process ends. This needs the channel Log.Unflushed, which only Open makes.
func (d *Directory) closeFlushed() error {
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(d.CloseFiles(), d.Unlock()) }()
	select {
	case err := <-closed:
		return err
	case err := <-d.Log.Unflushed:
		return Unflushed(err)
	}
}

// Unflushed returns the error for a store that was closed without a flush of its memtable.
func Unflushed(err error) error {
	return fmt.Errorf("store closed without flushing, nothing that was acknowledged is lost: %w", err)
}

// CloseFiles closes the files of the store while the directory stays locked.
func (d *Directory) CloseFiles() error { return errors.Join(d.DB.Close(), d.keys.Close()) }

// Unlock releases the lock of the directory, so that other processes can open it.
func (d *Directory) Unlock() error { return d.lock.Release() }
