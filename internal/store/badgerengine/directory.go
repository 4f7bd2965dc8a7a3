package badgerengine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Config configures a directory. All fields except EncryptionKey and the hooks are required.
type Config struct {
	Dir                    string
	Logger                 *slog.Logger
	EncryptionKey          []byte
	DataKeyAge             time.Duration
	MemTableSize           int64
	BlockCache, IndexCache int64
	// MinFree is the free disk space in bytes below which new work is refused. FreeSpace returns the
	// free space of a directory's file system.
	MinFree   int64
	FreeSpace func(dir string) (int64, error)
	// GCInterval is the interval at which the reclaimer frees disk space.
	GCInterval time.Duration
	// Next is the name of the directory that a migration builds to replace this one. Migrating means
	// that a migration is building the directory that is opened.
	Next      string
	Migrating bool
	// RunKeys and Step are hooks for tests, see Hooks in package store.
	RunKeys func(step string) error
	Step    func(name string)
}

// Directory is an open directory. It is safe for concurrent use.
type Directory struct {
	*DB

	// Log receives Badger's messages. Disk watches the free space. Head is the file HEAD, which records
	// the acknowledged commits. Reclaimer frees disk space.
	Log       *Logger
	Disk      *datadir.Disk
	Head      *datadir.AckFile
	Reclaimer *Reclaimer

	cfg   Config
	lock  *datadir.DirLock
	found *datadir.AckMark
	keys  *keyring.Ring
}

var _ engine.Engine = (*Directory)(nil)

// Open opens or creates a directory for serving. Errors: [datadir.ErrLocked], *[layout.Damage],
// *[datadir.KeyError], [datadir.ErrFormat], and *machine.Error DISK_LOW if there is too little free disk space
// for a start. After these errors the data of the directory is unchanged.
func Open(cfg Config) (*Directory, error) {
	if datadir.IsMigrationInterrupted(cfg.Dir, cfg.Next) {
		return nil, fmt.Errorf("%w: %s is being migrated; if no process migrates it, run pawl migrate again", datadir.ErrFormat, cfg.Dir)
	}
	if err := datadir.MakeDir(cfg.Dir); err != nil {
		return nil, err
	}
	d := &Directory{
		cfg:  cfg,
		Log:  &Logger{Log: cfg.Logger, Unflushed: make(chan error, 1)},
		Disk: &datadir.Disk{Dir: cfg.Dir, Min: cfg.MinFree, Free: cfg.FreeSpace, Log: cfg.Logger},
	}
	// Opening replays the write-ahead log and flushes it to tables, which needs disk space.
	if err := d.Disk.CheckNow(d.MinTableSpace()); err != nil {
		return nil, err
	}
	d.Log.AwaitSpace = func() { d.Disk.AwaitSpace(d.MinTableSpace()) }
	return opened(d)
}

// OpenOld opens a directory only to copy it. It makes the same checks of the files as [Open], and returns the same
// errors.
func OpenOld(cfg Config) (*Directory, error) {
	d := &Directory{cfg: cfg, Log: &Logger{Log: cfg.Logger, AwaitSpace: func() {}, Unflushed: make(chan error, 1)}}
	// Opening replays the write-ahead log and flushes it to tables, as in Open.
	d.Disk = &datadir.Disk{Dir: cfg.Dir, Min: cfg.MinFree, Free: cfg.FreeSpace, Log: cfg.Logger}
	if err := d.Disk.CheckNow(d.MinTableSpace()); err != nil {
		return nil, err
	}
	return opened(d)
}

func opened(d *Directory) (*Directory, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// open locks the directory and checks its files before Badger opens them.
func (d *Directory) open() error {
	lock, err := datadir.LockDir(d.cfg.Dir)
	if err != nil {
		return err
	}
	d.step("locked")
	if datadir.Progress(d.cfg.Dir) != "" && !d.cfg.Migrating {
		return errors.Join(fmt.Errorf("%w: it is not complete: repeat the command that creates it (pawl migrate, compact or salvage)", datadir.ErrFormat), lock.Release())
	}
	found, err := datadir.Inspect(d.cfg.Dir, d.cfg.EncryptionKey)
	if err == nil {
		d.step("inspected")
		err = found.DropUnborn()
	}
	if err == nil {
		d.step("cleared")
		d.keys, err = keyring.Open(d.cfg.Dir, d.cfg.EncryptionKey, d.cfg.RunKeys)
	}
	if err == nil {
		if d.DB, err = openDB(d.options()); err != nil {
			err = errors.Join(err, d.keys.Close())
		}
	}
	if err != nil {
		return errors.Join(err, lock.Release())
	}
	d.lock, d.found = lock, found.Head
	d.step("opened")
	return nil
}

func (d *Directory) options() dbOptions {
	return dbOptions{
		Dir: d.cfg.Dir, Log: d.Log, EncryptionKey: d.cfg.EncryptionKey, DataKeyAge: d.cfg.DataKeyAge,
		MemTableSize: d.cfg.MemTableSize, BlockCache: d.cfg.BlockCache, IndexCache: d.cfg.IndexCache,
	}
}

// step calls the test hook Step, if there is one, with the name of a finished part of the opening.
func (d *Directory) step(name string) {
	if d.cfg.Step != nil {
		d.cfg.Step(name)
	}
}

// OpenedMark returns the contents that the HEAD file had when the directory was opened, or nil if there was
// no such file.
func (d *Directory) OpenedMark() *datadir.AckMark { return d.found }

// Keys returns the encryption keys of erasable runs, which are in a file of the directory.
func (d *Directory) Keys() *keyring.Ring { return d.keys }

// Format returns the newest storage format. Open accepts no other one, because layout.OldestFormat is the same.
func (d *Directory) Format() uint32 { return layout.Format }

// Confirm returns an error if the HEAD file belongs to another store, or if the database lacks a commit that
// the file records as acknowledged. If repair is true, it compares only the number of the commit, and does not
// look for the last entry.
func (d *Directory) Confirm(txn *layout.Txn, epoch [16]byte, repair bool) error {
	found := d.found
	if found == nil {
		if !repair && hasRuns(txn) {
			d.cfg.Logger.Warn("file HEAD is missing or not valid, acknowledged commits cannot be compared", "store", d.cfg.Dir)
		}
		return nil
	}
	if found.Epoch != epoch {
		return layout.NewDamage(datadir.HeadName, "it belongs to another store: epoch %x, the database has %x", found.Epoch, epoch)
	}
	if last := txn.Group(); last < found.Group {
		return layout.NewDamage(datadir.HeadName, "group %d of commits was acknowledged, the database ends with %d", found.Group, last)
	}
	if repair {
		return nil
	}
	return found.CheckIn(txn)
}

// hasRuns reports whether the database has a run. A directory without a HEAD file has no run if its first start was
// interrupted. If it has a run, the HEAD file was lost.
func hasRuns(txn *layout.Txn) bool {
	prefix := []byte{layout.KindHead}
	it := txn.Scan(kv.Range{Prefix: prefix})
	defer it.Close()
	it.Seek(prefix)
	return layout.AtPrefix(it, prefix)
}

// Serve writes a new HEAD file, which records acknowledged commits. It is called after the store was
// checked.
func (d *Directory) Serve(group uint64, epoch [16]byte) error {
	now := datadir.AckMark{Epoch: epoch, Since: group}
	if d.found != nil {
		now = *d.found
	}
	now.Group, now.Collecting = group, false
	newest, err := datadir.LastValues(d.cfg.Dir)
	if err != nil {
		return err
	}
	d.Head, err = datadir.NewAckFile(d.cfg.Dir, now, newest)
	return err
}

// StartMaintenance creates and starts the reclaimer, which frees disk space until ctx ends.
func (d *Directory) StartMaintenance(ctx context.Context, duties engine.Callbacks) {
	d.Reclaimer = newReclaimer(reclaimConfig{
		Dir: d.cfg.Dir, DB: d.Badger(), Synced: duties.Stored, Collecting: d.Head.SetCollecting, Before: duties.Removed, Large: ValueLogThreshold,
		Scrub: func(ctx context.Context) error {
			err := d.Scrub(ctx)
			if errors.Is(err, layout.ErrDamaged) {
				duties.Fail(err)
			}
			return err
		},
		Fits: func(bytes int64) bool {
			free, err := d.cfg.FreeSpace(d.cfg.Dir)
			return err == nil && free >= d.MinTableSpace()+bytes
		},
	})
	go d.Reclaimer.Run(ctx, d.cfg.GCInterval, func(err error) {
		d.cfg.Logger.Warn("reclaiming disk space failed", "error", err)
	})
}

// MinTableSpace returns the free disk space that is needed to write a table of the LSM tree, in bytes.
// A flush at opening or closing writes tables, and so does a compaction.
func (d *Directory) MinTableSpace() int64 { return min(d.cfg.MinFree, 3*d.cfg.MemTableSize) }

// CheckSpace returns an error if the disk has too little space for a commit. A commit that frees space
// is accepted as long as tables can be written, because a full disk needs these commits.
func (d *Directory) CheckSpace(bytes int64, frees bool) error {
	err := d.Disk.Check(bytes)
	if err != nil && frees {
		return d.Disk.CheckNow(d.MinTableSpace() + 2*bytes)
	}
	return err
}

// Settled records in the file HEAD, which contains the last acknowledged commit, that a commit group is
// stored.
func (d *Directory) Settled(g engine.Group) error {
	return d.Head.SetProgress(g.Number, g.Apart, g.Last)
}

// BeginLargeDelete prevents the reclaimer from moving values to another file until release is called.
// Otherwise a moved value could become visible again after its delete.
func (d *Directory) BeginLargeDelete() (release func()) { return d.Reclaimer.Hold() }

// Removed reports to the reclaimer that rows were removed and that the removal is synced. bytes is the
// size of these rows.
func (d *Directory) Removed(bytes int64) { d.Reclaimer.Removed(bytes) }

// Fatal returns a channel that receives an error if Badger cannot flush a memtable. Badger then accepts
// no more writes and retries the flush forever.
func (d *Directory) Fatal() <-chan error { return d.Log.Unflushed }

// Check returns an error if the data directory was deleted or replaced while it is open.
func (d *Directory) Check() error { return d.Head.CheckPresent() }

// Sync syncs the file HEAD, which records the acknowledged commits, to disk.
func (d *Directory) Sync() error { return d.Head.Sync() }

// Scrub verifies the table files of the open database, one after the other. Badger itself treats a
// block with a wrong checksum as the end of its table, in reads and also in compactions, which then
// delete the table. Errors: *[layout.Damage] of the first damaged table; otherwise the errors of the tables that could
// not be opened or read, which may be whole.
func (d *Directory) Scrub(ctx context.Context) error {
	open := d.Tables()
	tables, err := datadir.OpenTables(d.cfg.Dir, d.cfg.EncryptionKey)
	if errors.Is(err, os.ErrNotExist) {
		return layout.NewDamage(badger.ManifestFilename, "it was removed while the store was open")
	}
	if err != nil {
		return err
	}
	var unread error
	for _, id := range open {
		if ctx.Err() != nil {
			return nil
		}
		_, err := tables.Verify(id)
		switch {
		case err == nil || !slices.Contains(d.Tables(), id):
			// A compaction may have deleted the table in the meantime, which is no damage.
		case errors.Is(err, layout.ErrDamaged):
			return err
		default:
			unread = errors.Join(unread, fmt.Errorf("table not verified: %w", err))
		}
	}
	return unread
}

// CopyInto copies all rows into the directory dir, which must be locked and empty. It returns the
// number of rows.
func (d *Directory) CopyInto(ctx context.Context, dir string) (rows int64, err error) {
	cfg := d.cfg
	cfg.Dir = dir
	return Fill(ctx, cfg, d.DB)
}

// Fill copies the rows of a storage engine into the directory of cfg, which must be locked and empty.
// It returns the number of rows. Errors: *machine.Error DISK_LOW if the disk has too little free space.
func Fill(ctx context.Context, cfg Config, from kv.KV) (rows int64, err error) {
	return fill(cfg, func(to *filler) error { return to.copyRows(ctx, from) })
}

// FillDamaged creates a database in the directory of cfg, which must be locked and empty, from what can be read in the
// damaged directory from. The rows keep their versions. keep returns false for a version of a row that is left out.
// lost is called for every part that cannot be read. last returns rows that are added at the end, with the version 1.
// Errors: those of [datadir.ReadDamaged], and *machine.Error DISK_LOW if the disk has too little free space.
func FillDamaged(ctx context.Context, cfg Config, from string, keep func(datadir.FoundRow) bool, lost func(*layout.Damage), last func() []layout.Op) (rows int64, err error) {
	return fill(cfg, func(to *filler) error {
		err := datadir.ReadDamaged(from, cfg.EncryptionKey, func(row datadir.FoundRow) error {
			if !keep(row) {
				return ctx.Err()
			}
			return errors.Join(ctx.Err(), to.add(row))
		}, lost)
		for _, op := range last() {
			err = errors.Join(err, to.add(datadir.FoundRow{Key: op.Key, Value: op.Value, Group: 1}))
		}
		return err
	})
}

// fill creates a database in the directory of cfg and calls write, which adds rows to it. If Badger cannot flush a
// memtable, fill returns an error and leaves the files open, because Badger would retry forever.
func fill(cfg Config, write func(to *filler) error) (rows int64, err error) {
	d := &Directory{cfg: cfg, Log: &Logger{Log: cfg.Logger, AwaitSpace: func() {}, Unflushed: make(chan error, 1)}}
	to := &filler{disk: &datadir.Disk{Dir: cfg.Dir, Min: d.MinTableSpace(), Free: cfg.FreeSpace, Log: cfg.Logger}}
	if err := to.disk.CheckNow(to.disk.Min); err != nil {
		return 0, err
	}
	if to.db, err = openDB(d.options()); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- errors.Join(to.fill(write), to.db.Close()) }()
	select {
	case err := <-done:
		return to.rows, err
	case err := <-d.Log.Unflushed:
		return 0, Unflushed(err)
	}
}
