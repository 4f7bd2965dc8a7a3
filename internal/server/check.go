package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/secretfile"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// checkedPackBytes limits the size of the packs that a check compiles. The configured limit for the
// registration of packs may be different.
const checkedPackBytes = 64 << 20

// CheckReport counts the runs, records and other items that a check has verified.
type CheckReport = check.Report

// CheckFault is the first fault that a check found.
type CheckFault = check.Fault

// Data is the location of a store that no sidecar has open: a directory or a database.
type Data struct {
	Dir string
	// KeyFile is the file with the directory's encryption key. "" means that the directory is not
	// encrypted.
	KeyFile string
	// Database is the location if Dir is empty.
	Database Database
}

// IsSet reports whether a location is set.
func (d Data) IsSet() bool { return d.Dir != "" || !d.Database.URL.IsZero() }

// unmarked is the interval at which a command would store watermarks, which say where reads of a queue
// begin. The interval is so long that a command which only reads a store never writes one.
const unmarked = 24 * time.Hour

// hasStore reports whether the location contains a store, as far as this can be seen without opening it.
func (d Data) hasStore() (bool, error) {
	if d.Dir == "" {
		// A missing store in a database is reported when the database is opened.
		return true, nil
	}
	return datadir.HasStore(d.Dir)
}

// Location returns the location as text for messages.
func (d Data) Location() string {
	if d.Dir != "" {
		return d.Dir
	}
	return d.Database.String()
}

// options returns the options with which a command opens the store. The errors wrap [ErrUnusable]. For
// a directory, they are those of [secretfile.ReadKey].
func (d Data) options() (store.Options, error) {
	if d.Dir == "" {
		return d.Database.options()
	}
	if dsn.IsURL(d.Dir) {
		return store.Options{}, fmt.Errorf("%w: the target is the URL of a database, not a directory: pass it as --store", ErrUnusable)
	}
	key, err := readKey(d.KeyFile)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return store.Options{Dir: d.Dir, EncryptionKey: key, MarkInterval: unmarked}, err
}

// readKey reads a file with an encryption key. If path is "", it returns nil.
func readKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	return secretfile.ReadKey(path)
}

// ErrUnusable is wrapped by the errors of a store that could not be opened or created: it does not exist, is in
// use, was written by a newer version, or is encrypted with another key, its database cannot be
// reached, or its disk is full. It says nothing about the contents of the store.
var ErrUnusable = errors.New("the store cannot be used")

// Check opens a store and verifies every invariant, partition by partition. It returns the sums of the
// counts of the partitions. Errors: [ErrUnusable], or a *[CheckFault]. If a fault is in a partition
// other than the first, a *[PartError] wraps it. No other process may have the store open.
func Check(ctx context.Context, data Data) (report CheckReport, err error) {
	err = data.eachPartition(ctx, func(part Data) error {
		one, err := checkPart(ctx, part)
		report = added(report, one)
		return err
	})
	return report, err
}

// checkPart checks the store of one partition. If a directory has no valid HEAD file, the loss of the last
// acknowledged commits cannot be excluded, which is a fault.
func checkPart(ctx context.Context, data Data) (report CheckReport, err error) {
	var acked *datadir.AckMark
	if data.Dir != "" {
		if acked, err = datadir.ReadAcked(data.Dir); err != nil {
			return report, fmt.Errorf("%w: %w", ErrUnusable, err)
		}
	}
	s, err := openExisting(data, false)
	if damage, ok := errors.AsType[*layout.Damage](err); ok {
		return report, errors.Join(check.FaultOf(damage), err)
	}
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if report, err = s.Check(ctx, graphsOf(ctx, s)); err == nil && data.Dir != "" && acked == nil && report.Runs > 0 {
		err = &check.Fault{Row: datadir.HeadName, Detail: "it was missing or not valid, so runs that were acknowledged last can be missing too: restore a backup. What the directory has is in order, and it has a new " + datadir.HeadName + " now"}
	}
	return report, err
}

// CheckRepair is the result of the repair of one partition of a store.
type CheckRepair = check.Repair

// Repair rebuilds every row of a store that differs from what the journal entries imply, partition by
// partition. The callback is called with the result of each partition. Errors: those of [Check].
func Repair(ctx context.Context, data Data, told func(part int32, done CheckRepair)) error {
	return data.eachPartition(ctx, func(part Data) error {
		done, err := repairPart(ctx, part)
		if err == nil {
			told(part.Database.Part, done)
		}
		return err
	})
}

func repairPart(ctx context.Context, data Data) (done CheckRepair, err error) {
	s, err := openExisting(data, true)
	if damage, ok := errors.AsType[*layout.Damage](err); ok {
		return done, errors.Join(check.FaultOf(damage), err)
	}
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Repair(ctx, graphsOf(ctx, s))
}

// Migration is the result of the migration of a directory.
type Migration = store.Migration

// Migrate migrates the store in a directory to the storage format of this program. The new store is in
// the directory to. If to is "", the new store replaces the old one, see [store.Migrate]. Errors:
// [ErrUnusable].
func Migrate(ctx context.Context, data Data, to string) (Migration, error) {
	if dsn.IsURL(data.Dir) {
		return Migration{}, fmt.Errorf("%w: the tables of a database are migrated by the sidecar that serves them; 'pawl migrate --from DIR --to URL' moves a store into one", ErrUnusable)
	}
	opts, err := data.options()
	if err != nil {
		return Migration{}, err
	}
	done, err := store.Migrate(ctx, opts, to, func(s *store.Store) check.Graphs { return graphsOf(ctx, s) })
	return done, marked(err)
}

// Compaction is the result of the compaction of a directory.
type Compaction = store.Compaction

// Compact rewrites the store in a directory without data that was replaced or removed. The new store is
// in the directory to. If to is "", the new store replaces the old one, see [store.Compact]. Errors:
// [ErrUnusable].
func Compact(ctx context.Context, data Data, to string) (Compaction, error) {
	if dsn.IsURL(data.Dir) {
		return Compaction{}, fmt.Errorf("%w: a database is not compacted by Pawl: its autovacuum makes room for new rows, VACUUM FULL gives it back to the disk", ErrUnusable)
	}
	opts, err := data.options()
	if err != nil {
		return Compaction{}, err
	}
	done, err := store.Compact(ctx, opts, to, func(s *store.Store) check.Graphs { return graphsOf(ctx, s) })
	return done, marked(err)
}

// Salvaged is the result of the salvage of a damaged directory.
type Salvaged = store.Salvaged

// Salvage creates a store in the directory to from what can be read of a damaged directory, see [store.Salvage].
// Errors: [ErrUnusable].
func Salvage(ctx context.Context, data Data, to string) (Salvaged, error) {
	if dsn.IsURL(data.Dir) || dsn.IsURL(to) {
		return Salvaged{}, fmt.Errorf("%w: a database is not salvaged by Pawl: restore a backup of the database; DIR and NEW are directories", ErrUnusable)
	}
	opts, err := data.options()
	if err != nil {
		return Salvaged{}, err
	}
	done, err := store.Salvage(ctx, opts, to, func(s *store.Store) check.Graphs { return graphsOf(ctx, s) })
	return done, marked(err)
}

// graphsOf returns a function that finds and compiles the workflow graph of a run. It reads the packs
// from the store s.
func graphsOf(ctx context.Context, s *store.Store) check.Graphs {
	g := newGraphs(s)
	return func(digest, entry, agent string, override bool) (*machine.Graph, error) {
		return g.find(ctx, digest, entry, agent, override)
	}
}

// openExisting opens a store. It returns an error if the location has no store. repair means that the
// store is opened for a repair.
func openExisting(data Data, repair bool) (*store.Store, error) {
	opts, err := data.options()
	if err != nil {
		return nil, err
	}
	if held, err := data.hasStore(); err != nil || !held {
		return nil, errors.Join(fmt.Errorf("%w: %s holds no store", ErrUnusable, data.Location()), err)
	}
	opts.Repair = repair
	s, err := store.Open(opts)
	return s, marked(err)
}

// marked wraps [ErrUnusable] around an error that means that the store or a place cannot be used, for example because
// another process has the store open or the disk is full. It returns any other error unchanged, also one about faulty
// contents of the store.
func marked(err error) error {
	if unusable(err) && !errors.Is(err, ErrUnusable) {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return err
}

// unusable reports whether [marked] marks err.
func unusable(err error) bool {
	_, otherKey := errors.AsType[*datadir.KeyError](err)
	_, noDatabase := errors.AsType[*DatabaseError](err)
	return otherKey || noDatabase || diskFull(err) ||
		errors.Is(err, datadir.ErrLocked) || errors.Is(err, store.ErrFormat) || errors.Is(err, datadir.ErrSwap) || errors.Is(err, datadir.ErrNotEmpty)
}

// diskFull reports whether err means that a disk has too little space, or cannot be written at all. Badger keeps only the
// text of many errors of the system.
func diskFull(err error) bool {
	if err == nil {
		return false
	}
	refusal, ok := errors.AsType[*machine.Error](err)
	return ok && refusal.Reason == datadir.DiskLow || slices.ContainsFunc([]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS}, func(errno syscall.Errno) bool {
		return errors.Is(err, errno) || strings.Contains(err.Error(), errno.Error())
	})
}

type graphKey struct {
	digest string
	entry  pack.Entry
}

// graphs finds and compiles the packs of a store. It compiles each entry of a pack (an agent or a
// state) only once.
type graphs struct {
	store    *store.Store
	packs    map[string]*pack.Pack
	compiled map[graphKey]*machine.Graph
}

func newGraphs(s *store.Store) *graphs {
	return &graphs{store: s, packs: map[string]*pack.Pack{}, compiled: map[graphKey]*machine.Graph{}}
}

// find returns the graph with which a run was started. It compiles each graph once.
func (g *graphs) find(ctx context.Context, digest, entry, agent string, override bool) (*machine.Graph, error) {
	key := graphKey{digest: digest, entry: pack.Entry{Agent: agent}}
	if override {
		key.entry.State = entry
	}
	if graph := g.compiled[key]; graph != nil {
		return graph, nil
	}
	loaded, err := g.pack(ctx, digest)
	if err != nil {
		return nil, err
	}
	graph, err := loaded.Compile(key.entry)
	if err == nil {
		g.compiled[key] = graph
	}
	return graph, err
}

// pack returns a registered pack by its digest. It loads each pack once.
func (g *graphs) pack(ctx context.Context, digest string) (*pack.Pack, error) {
	if loaded := g.packs[digest]; loaded != nil {
		return loaded, nil
	}
	canonical, err := g.store.PackBytes(ctx, digest)
	if err != nil {
		return nil, err
	}
	loaded, found, err := pack.Load(canonical, pack.Options{Limits: pack.Limits{Bytes: checkedPackBytes}, Accepted: true})
	if err != nil {
		return nil, err
	}
	if loaded == nil {
		return nil, fmt.Errorf("pack %s has errors: %v", digest, found)
	}
	g.packs[digest] = loaded
	return loaded, nil
}
