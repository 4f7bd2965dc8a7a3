package store

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
)

// Options configure how a store is opened. Only Dir is required.
type Options struct {
	// Dir is the directory of the database. Open creates it if it does not exist.
	Dir string
	// Logger receives the messages of the store and of Badger. Default: discarded.
	Logger *slog.Logger

	// EncryptionKey is the master key of the directory, of 16, 24 or 32 bytes. It encrypts all data
	// that came from callers. If it is nil, nothing is encrypted. This is decided when the directory is
	// created and cannot be changed later.
	EncryptionKey []byte
	// DataKeyAge is the time after which a new data key is created. Each new file is encrypted with the
	// newest data key. Data keys are stored in the directory, encrypted with EncryptionKey. Default 10
	// days.
	DataKeyAge time.Duration

	// MemTableSize is the size of Badger's memtable in bytes, from 8 MiB to 64 MiB. Default 32 MiB.
	// Badger accepts 15 % of it in one transaction, which limits the size of a commit group.
	MemTableSize int64
	// BlockCache and IndexCache are the sizes of Badger's caches in bytes. Defaults 32 MiB and 16
	// MiB.
	BlockCache, IndexCache int64

	// MinFree is the free disk space in bytes below which new work is refused with DISK_LOW. Default
	// 256 MiB.
	MinFree int64
	// FreeSpace returns the free space of a directory's file system in bytes. Default: the result of
	// statfs.
	FreeSpace func(dir string) (int64, error)

	// GCInterval is the interval at which disk space is reclaimed from Badger's tables and value logs. Default 10
	// min.
	GCInterval time.Duration
	// ScrubInterval is the interval at which the table files are verified while the store is open.
	// Default 1 h.
	ScrubInterval time.Duration
	// MarkInterval is the interval at which the watermarks (where scans of queues begin) are stored, HEAD is
	// synced, and interrupted removals are continued. Default 10 s.
	MarkInterval time.Duration

	// UsageLabels are the keys of the labels by which usage is rolled up. Default: none.
	UsageLabels []string
	// UsageRows is the number of rollups of usage that a day of a namespace has before further combinations of values are
	// added to one without values of labels. Default 10 000.
	UsageRows int

	// Repair must be set if [Store.Repair] will be called. The store then opens although cursor rows
	// are damaged or the last acknowledged commit is missing.
	Repair bool
	// migrating is true while a migration, a move or a compaction creates the store. epoch is the id of the old
	// store, which the new store keeps. If it is nil, the new store gets an id of its own.
	migrating bool
	epoch     *[16]byte

	// Engine opens the storage engine that keeps the key-value pairs. Default: Badger in Dir.
	Engine func(Options) (engine.Engine, error)

	// Hooks are called at certain steps of the store. Benchmarks use them to measure times, and tests
	// to make steps fail.
	Hooks Hooks
}

// Hooks are functions that the committer calls around each commit group, and that Open and Migrate call
// after their steps. Each may be nil.
type Hooks struct {
	// BeforeCommit runs before a commit group is passed to the storage engine. Its error is treated as
	// an error of the commit, whose outcome is then unknown.
	BeforeCommit func(Group) error
	// AfterCommit runs after the storage engine has synced a commit group and before any caller is
	// answered. Its error is treated as an error of the commit.
	AfterCommit func(Group) error
	// Answered runs after the callers of a commit group were answered.
	Answered func(Group)
	// Opening runs after each step of Open. The steps are "locked", "inspected", "cleared", "opened",
	// "marked" and "confirmed".
	Opening func(step string)
	// RunKeys runs before each write and each sync of the file of run keys. If it returns an error, the
	// write fails with this error.
	RunKeys func(step string) error
	// Migrating runs after each step of [Migrate]. [MoveIn] calls it after its own steps, which have the same
	// names. The steps are "cleared", "copied", "repaired", "proven", "complete", "moved" and "placed".
	Migrating func(step string)
}

// Group describes one transaction of the committer, which contains the batches of several callers.
type Group struct {
	// Number is the number of the commit group, counted from 1 since the store was opened.
	Number uint64
	// Batches, Keys and Bytes count the contents of the commit group.
	Batches, Keys int
	Bytes         int64
}

// withDefaults returns the options with the default for each field that is not set.
func (o Options) withDefaults() Options {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MemTableSize, 32<<20)
	def(&o.BlockCache, 32<<20)
	def(&o.IndexCache, 16<<20)
	def(&o.MinFree, 256<<20)
	if o.UsageRows == 0 {
		o.UsageRows = 10_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FreeSpace == nil {
		o.FreeSpace = datadir.FreeSpace
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
	check(o.UsageRows >= 1, "UsageRows is %d, want at least 1", o.UsageRows)
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
