package store

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/store/engine"
)

// Options configure how a store is opened. Only Dir is required.
type Options struct {
	// Dir is the directory of the database. Open creates it if it does not exist.
	Dir string
	// Logger receives Badger's messages. Default: discarded.
	Logger *slog.Logger

	// EncryptionKey has 16, 24 or 32 bytes. It encrypts all data in the directory that came from
	// callers. If it is nil, nothing is encrypted. This is decided when a directory is created and
	// cannot be changed later.
	EncryptionKey []byte
	// DataKeyAge is how long new files are encrypted with the same data key. The data key is stored in
	// the directory, encrypted with EncryptionKey. Default 10 days.
	DataKeyAge time.Duration

	// MemTableSize is the size of Badger's memtable in bytes, from 8 MiB to 64 MiB. Default 32 MiB.
	// Badger accepts 15 % of it in one transaction. This limits the size of a group.
	MemTableSize int64
	// BlockCache and IndexCache are the sizes of Badger's caches in bytes. Defaults 32 MiB and 16
	// MiB.
	BlockCache, IndexCache int64

	// MinFree is the free space in bytes below which new work is refused with
	// DISK_LOW. Default max(256 MiB, 2 x MemTableSize).
	MinFree int64
	// FreeSpace returns the free space of a directory's file system in bytes. Default: the result of
	// statfs.
	FreeSpace func(dir string) (int64, error)

	// GCInterval is the interval at which space is reclaimed from the value log. Default 10 min.
	GCInterval time.Duration
	// ScrubInterval is the interval at which the tables are verified while the store is open.
	// Default 1 h.
	ScrubInterval time.Duration
	// MarkInterval is the interval at which the watermarks of the queues are stored. Default 10 s.
	MarkInterval time.Duration

	// Repair must be set before [Store.Repair] is called. With it, the store opens even if its rows of
	// cursors are damaged, and Open does not check that the last acknowledged commit exists.
	Repair bool
	// migrating is true while a migration or a move creates the store. In this case epoch is the epoch
	// of the old store.
	migrating bool
	epoch     *[16]byte

	// Engine opens the engine that keeps the pairs. Default: Badger in Dir.
	Engine func(Options) (engine.Engine, error)

	// Hooks are called at the steps of the committer. Benchmarks use them to measure times, and tests
	// use them to make steps fail.
	Hooks Hooks
}

// Hooks are functions that the committer calls around each group, and that Open and Migrate call after
// their steps. Each may be nil.
type Hooks struct {
	// BeforeCommit runs before the group is passed to the engine. If it returns an error, this is
	// treated as an error of the commit, and the outcome of the commit is unknown.
	BeforeCommit func(Group) error
	// AfterCommit runs after the engine has synced the group and before any caller is answered. If it
	// returns an error, this is treated as an error of the commit.
	AfterCommit func(Group) error
	// Answered runs after the group's callers were answered.
	Answered func(Group)
	// Opening runs after each step of Open. The steps are "locked", "inspected", "cleared", "opened",
	// "marked" and "confirmed".
	Opening func(step string)
	// RunKeys runs before each write and each sync of the file of run keys. If it returns an error, the
	// step fails with this error.
	RunKeys func(step string) error
	// Migrating runs after each step of [Migrate]. The steps are "cleared", "copied", "repaired",
	// "proven", "complete", "moved" and "placed".
	Migrating func(step string)
}

// Group describes one transaction of the committer.
type Group struct {
	// Number is the number of the group, counted from 1 since the store was opened.
	Number uint64
	// Batches, Keys and Bytes count the contents of the group.
	Batches, Keys int
	Bytes         int64
}

func (o Options) withDefaults() Options {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MemTableSize, 32<<20)
	def(&o.BlockCache, 32<<20)
	def(&o.IndexCache, 16<<20)
	def(&o.MinFree, max(256<<20, 2*o.MemTableSize))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FreeSpace == nil {
		o.FreeSpace = diskspace.FreeSpace
	}
	if o.GCInterval == 0 {
		o.GCInterval = 10 * time.Minute
	}
	if o.ScrubInterval == 0 {
		o.ScrubInterval = time.Hour
	}
	if o.DataKeyAge == 0 {
		o.DataKeyAge = 10 * 24 * time.Hour
	}
	if o.MarkInterval == 0 {
		o.MarkInterval = 10 * time.Second
	}
	if o.Engine == nil {
		o.Engine = openDirectory
	}
	return o
}

// validate returns all faults of the options in one error.
func (o Options) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Dir != "", "Dir is empty")
	check(slices.Contains([]int{0, 16, 24, 32}, len(o.EncryptionKey)), "EncryptionKey has %d bytes, want 16, 24 or 32", len(o.EncryptionKey))
	check(o.DataKeyAge >= time.Second, "DataKeyAge is %v, want at least 1s", o.DataKeyAge)
	check(o.MemTableSize >= 8<<20 && o.MemTableSize <= 64<<20, "MemTableSize is %d, want %d to %d", o.MemTableSize, 8<<20, 64<<20)
	check(o.BlockCache >= 1<<20, "BlockCache is %d, want at least %d", o.BlockCache, 1<<20)
	check(o.IndexCache >= 1<<20, "IndexCache is %d, want at least %d", o.IndexCache, 1<<20)
	check(o.MinFree >= 0, "MinFree is %d, want at least 0", o.MinFree)
	check(o.GCInterval > 0, "GCInterval is %v, want more than 0", o.GCInterval)
	check(o.ScrubInterval > 0, "ScrubInterval is %v, want more than 0", o.ScrubInterval)
	check(o.MarkInterval > 0, "MarkInterval is %v, want more than 0", o.MarkInterval)
	return errors.Join(errs...)
}

// openDirectory is the default of Options.Engine. It opens Badger in Dir.
func openDirectory(o Options) (engine.Engine, error) {
	d, err := badgerengine.Open(o.directory())
	if err != nil {
		return nil, err
	}
	return d, nil
}

// directory returns the configuration of the Badger engine.
func (o Options) directory() badgerengine.Config {
	return badgerengine.Config{
		Dir: o.Dir, Logger: o.Logger, EncryptionKey: o.EncryptionKey, DataKeyAge: o.DataKeyAge,
		MemTableSize: o.MemTableSize, BlockCache: o.BlockCache, IndexCache: o.IndexCache,
		MinFree: o.MinFree, FreeSpace: o.FreeSpace, GCInterval: o.GCInterval,
		Next: nextTo(o.Dir), Migrating: o.migrating, RunKeys: o.Hooks.RunKeys, Step: o.Hooks.Opening,
	}
}
