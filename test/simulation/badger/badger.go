package badger

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	upstream "github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// What is Badger's own.
type (
	// Options open a database.
	Options = upstream.Options
	// IteratorOptions say what an iterator visits.
	IteratorOptions = upstream.IteratorOptions
	// TableInfo is a table on disk. The simulated database has none.
	TableInfo = upstream.TableInfo
	// Manifest lists tables, TableManifest is one of them.
	Manifest      = upstream.Manifest
	TableManifest = upstream.TableManifest
	// KeyRegistryOptions open the file of the keys. The simulated database has no such file.
	KeyRegistryOptions = upstream.KeyRegistryOptions
)

// Names of files. The manifest is the first that a database makes.
const (
	ManifestFilename           = upstream.ManifestFilename
	KeyRegistryFileName        = upstream.KeyRegistryFileName
	KeyRegistryRewriteFileName = upstream.KeyRegistryRewriteFileName
)

// Nothing is encrypted here.
var (
	OpenKeyRegistry  = upstream.OpenKeyRegistry
	WriteKeyRegistry = upstream.WriteKeyRegistry
)

// Errors that the store compares.
var (
	ErrKeyNotFound = upstream.ErrKeyNotFound
	ErrNoRewrite   = upstream.ErrNoRewrite
	ErrRejected    = upstream.ErrRejected
)

// DefaultOptions are Badger's.
func DefaultOptions(dir string) Options { return upstream.DefaultOptions(dir) }

// ReplayManifestFile is never called: [Newest] returns what the disk contains.
func ReplayManifestFile(any, uint32, Options) (Manifest, int64, error) {
	return Manifest{}, 0, nil
}

// DB is an open database. Safe for concurrent use.
type DB struct {
	disk *disk.Disk
	life int
	sync bool
	dir  string

	mu   sync.Mutex
	keys []string
	rows map[string][]version
	// newest is the timestamp of the last group. discard is the timestamp below which no version is
	// read.
	newest, discard uint64
	closed          bool
}

// version is what a key was set to.
type version struct {
	ts    uint64
	value []byte
	gone  bool
}

// OpenManaged reads what the disk holds.
func OpenManaged(opts Options) (*DB, error) {
	d := disk.At(opts.Dir)
	if d == nil {
		return nil, fmt.Errorf("no disk %q", opts.Dir)
	}
	names, sizes := d.Names()
	for _, name := range names {
		if ext := filepath.Ext(name); sizes[name] == 0 && (ext == ".mem" || ext == ".vlog") {
			return nil, fmt.Errorf("%s: EOF", name)
		}
	}
	db := &DB{disk: d, life: d.Life(), sync: opts.SyncWrites, dir: opts.Dir, rows: make(map[string][]version)}
	for _, g := range d.Open() {
		db.apply(g)
	}
	if _, err := d.ReadFile(ManifestFilename); err != nil {
		if err := d.Create(db.life, ManifestFilename).Sync(); err != nil {
			return nil, err
		}
	}
	return db, nil
}

// Newest is the timestamp of the last group on a directory's disk.
func Newest(dir string) (uint64, error) {
	groups := disk.At(dir).Image()
	if len(groups) == 0 {
		return 0, nil
	}
	return groups[len(groups)-1].TS, nil
}

// Close ends the database; the disk keeps it.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return errors.New("closed twice")
	}
	db.closed = true
	return nil
}

// MaxBatchSize returns the value that Badger has with a memtable of 32 MiB.
func (db *DB) MaxBatchSize() int64 { return 15 * (32 << 20) / 100 }

// MaxBatchCount returns about the value that Badger has with a memtable of 32 MiB.
func (db *DB) MaxBatchCount() int64 { return 50_000 }

// MaxVersion is the timestamp of the last commit.
func (db *DB) MaxVersion() uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.newest
}

// SetDiscardTs sets the timestamp below which no version is read any more.
func (db *DB) SetDiscardTs(ts uint64) { //nolint:staticcheck // Badger's name
	db.mu.Lock()
	defer db.mu.Unlock()
	db.discard = ts
}

// Tables are files, of which there are none.
func (db *DB) Tables() []TableInfo { return nil }

// Size is that of files, of which there are none.
func (db *DB) Size() (lsm, log int64) { return 0, 0 }

// RunValueLogGC finds no file to rewrite.
func (db *DB) RunValueLogGC(_ float64) error { return ErrNoRewrite }

// Flatten finds no files.
func (db *DB) Flatten(_ int) error { return nil }

// NewTransactionAt returns a transaction that reads at a timestamp. A timestamp below the discard
// timestamp is a fault of the store, because the read would find less than was stored.
func (db *DB) NewTransactionAt(ts uint64, update bool) *Txn {
	db.mu.Lock()
	defer db.mu.Unlock()
	if ts < db.discard {
		panic(fmt.Sprintf("a read at %d, versions below %d are given up", ts, db.discard))
	}
	t := &Txn{db: db, ts: ts}
	if update {
		t.pending = make(map[string]disk.Op)
	}
	return t
}
