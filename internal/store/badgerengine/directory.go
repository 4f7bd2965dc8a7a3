package badgerengine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/store/badgerkv"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Config is everything that a directory needs; all but EncryptionKey and the hooks is required.
type Config struct {
	Dir                    string
	Logger                 *slog.Logger
	EncryptionKey          []byte
	DataKeyAge             time.Duration
	MemTableSize           int64
	BlockCache, IndexCache int64
	// MinFree is the free space in bytes under which new work is refused; FreeSpace tells that
	// of a directory's file system.
	MinFree   int64
	FreeSpace func(dir string) (int64, error)
	// GCInterval is how often the value log is collected.
	GCInterval time.Duration
	// Next is the directory that a migration makes to take the place of this one. Migrating:
	// this is one.
	Next      string
	Migrating bool
	// RunKeys and Step are hooks of tests: see the store's.
	RunKeys func(step string) error
	Step    func(name string)
}

// Directory is an open one. Safe for concurrent use.
type Directory struct {
	*badgerkv.DB

	// The parts: Badger's log messages, the free disk space, HEAD, and the reclaim of space.
	Log       *diskspace.Logger
	Disk      *diskspace.Disk
	Head      *datadir.AckFile
	Reclaimer *Reclaimer

	cfg   Config
	lock  *datadir.DirLock
	found *datadir.AckMark
	keys  *keyring.Ring
}

var _ engine.Engine = (*Directory)(nil)

// Open opens or creates a directory for serving. Errors: [datadir.ErrLocked], *[layout.Damage],
// *[datadir.KeyError], [datadir.ErrFormat]; the directory stays unchanged. *machine.Refusal
// DISK_LOW when the disk space is too low for a start.
func Open(cfg Config) (*Directory, error) {
	if datadir.Moving(cfg.Dir, cfg.Next) {
		return nil, fmt.Errorf("%w: %s is being migrated; if nobody does, run pawl migrate again", datadir.ErrFormat, cfg.Dir)
	}
	if err := datadir.MakeDir(cfg.Dir); err != nil {
		return nil, err
	}
	d := &Directory{
		cfg:  cfg,
		Log:  &diskspace.Logger{Log: cfg.Logger, Unflushed: make(chan error, 1)},
		Disk: &diskspace.Disk{Dir: cfg.Dir, Min: cfg.MinFree, Free: cfg.FreeSpace},
	}
	// Opening replays and flushes the log, which needs disk space for the memtables.
	if err := d.Disk.CheckNow(d.MinTableSpace()); err != nil {
		return nil, err
	}
	d.Log.AwaitSpace = func() { d.Disk.AwaitSpace(d.MinTableSpace()) }
	return opened(d)
}

// OpenOld opens a directory that is copied and not served, after the proofs of any start.
func OpenOld(cfg Config) (*Directory, error) {
	d := &Directory{cfg: cfg, Log: &diskspace.Logger{Log: cfg.Logger, AwaitSpace: func() {}}}
	return opened(d)
}

func opened(d *Directory) (*Directory, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// open locks the directory, proves its files and only then lets Badger have it.
func (d *Directory) open() error {
	lock, err := datadir.LockDir(d.cfg.Dir)
	if err != nil {
		return err
	}
	d.step("locked")
	if datadir.Progress(d.cfg.Dir) != "" && !d.cfg.Migrating {
		return errors.Join(fmt.Errorf("%w: a migration of it was broken off; call 'pawl migrate' again", datadir.ErrFormat), lock.Release())
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
		if d.DB, err = badgerkv.Open(d.options()); err != nil {
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

func (d *Directory) options() badgerkv.Options {
	return badgerkv.Options{
		Dir: d.cfg.Dir, Log: d.Log, EncryptionKey: d.cfg.EncryptionKey, DataKeyAge: d.cfg.DataKeyAge,
		MemTableSize: d.cfg.MemTableSize, BlockCache: d.cfg.BlockCache, IndexCache: d.cfg.IndexCache,
	}
}

// step tells tests how far an opening is.
func (d *Directory) step(name string) {
	if d.cfg.Step != nil {
		d.cfg.Step(name)
	}
}

// Found is what the HEAD file said at the opening, nil if there was none.
func (d *Directory) Found() *datadir.AckMark { return d.found }

// Keys are in a file of the directory.
func (d *Directory) Keys() *keyring.Ring { return d.keys }

// Format returns the newest format: Open accepts no other one.
func (d *Directory) Format() uint32 { return layout.Format }

// Confirm compares the database with what the HEAD file says was acknowledged.
func (d *Directory) Confirm(txn *layout.Txn, epoch [16]byte, repair bool) error {
	found := d.found
	if found == nil {
		return nil
	}
	if found.Epoch != epoch {
		return layout.Damaged(datadir.HeadName, "it belongs to another store: epoch %x, the database has %x", found.Epoch, epoch)
	}
	if last := txn.Group(); last < found.Group {
		return layout.Damaged(datadir.HeadName, "group %d of commits was acknowledged, the database ends with %d", found.Group, last)
	}
	if repair {
		return nil
	}
	return found.In(txn)
}

// Serve makes the HEAD file anew for a store that is as it should be.
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

// StartMaintenance creates the reclaimer, which frees disk space, and starts it.
func (d *Directory) StartMaintenance(ctx context.Context, duties engine.Callbacks) {
	d.Reclaimer = newReclaimer(reclaimConfig{
		Dir: d.cfg.Dir, DB: d.Badger(), Synced: duties.Stored, Collecting: d.Head.SetCollecting, Before: duties.Removed, Large: badgerkv.Apart,
		Scrub: func(ctx context.Context) error {
			err := d.Scrub(ctx)
			if err != nil {
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

// MinTableSpace is the free space without which no table is written: neither by a
// flush at opening or closing nor by a compaction.
func (d *Directory) MinTableSpace() int64 { return min(d.cfg.MinFree, 3*d.cfg.MemTableSize) }

// CheckSpace checks that the disk has space for a commit. Commits that free space are accepted
// as long as tables can be written, because a full disk needs them.
func (d *Directory) CheckSpace(bytes int64, frees bool) error {
	err := d.Disk.Check(bytes)
	if err != nil && frees {
		return d.Disk.CheckNow(d.MinTableSpace() + 2*bytes)
	}
	return err
}

// Settled writes HEAD.
func (d *Directory) Settled(g engine.Group) error {
	return d.Head.SetProgress(g.Number, g.Apart, g.Last)
}

// BeginLargeDelete keeps rows where they are until release is called.
func (d *Directory) BeginLargeDelete() (release func()) { return d.Reclaimer.Hold() }

// Removed notes the size of rows whose removal is stored.
func (d *Directory) Removed(bytes int64) { d.Reclaimer.Removed(bytes) }

// Fatal reports that Badger cannot flush a memtable. Badger then accepts no more writes and
// retries the flush for ever.
func (d *Directory) Fatal() <-chan error { return d.Log.Unflushed }

// Check sees to it that the directory is there.
func (d *Directory) Check() error { return d.Head.CheckPresent() }

// Sync brings what HEAD claims onto the disk.
func (d *Directory) Sync() error { return d.Head.Sync() }

// Scrub proves the tables of the open database, one after the other: Badger takes
// a block that fails its checksum for the end of its table, in reads and, worse, in
// the compaction that then deletes the table.
func (d *Directory) Scrub(ctx context.Context) error {
	open := d.Tables()
	tables, err := datadir.OpenTables(d.cfg.Dir, d.cfg.EncryptionKey)
	if err != nil {
		return err
	}
	for _, id := range open {
		if ctx.Err() != nil {
			return nil
		}
		// A compaction may have deleted it meanwhile.
		if _, err := tables.Verify(id); errors.Is(err, layout.ErrDamaged) && slices.Contains(d.Tables(), id) {
			return err
		}
	}
	return nil
}

// CopyInto writes the rows anew into a directory that is locked and empty, and says how many
// there are.
func (d *Directory) CopyInto(ctx context.Context, dir string) (rows int64, err error) {
	cfg := d.cfg
	cfg.Dir = dir
	return Fill(ctx, cfg, d.DB)
}

// Fill writes the rows of an engine into a directory that is locked and empty, and says how many
// there are.
func Fill(ctx context.Context, cfg Config, from kv.KV) (rows int64, err error) {
	d := &Directory{cfg: cfg, Log: &diskspace.Logger{Log: cfg.Logger, AwaitSpace: func() {}}}
	to, err := badgerkv.Open(d.options())
	if err != nil {
		return 0, err
	}
	rows, err = badgerkv.Copy(ctx, from, to)
	return rows, errors.Join(err, to.Close())
}
