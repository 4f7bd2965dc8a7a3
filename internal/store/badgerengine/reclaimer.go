package badgerengine

import (
	"bytes"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

const (
	// minRemovedBytes is the number of removed bytes from which a compaction is worthwhile. The removed bytes must
	// also be at least one worthPart-th (a tenth) of the store.
	minRemovedBytes = 8 << 20
	worthPart       = 10
	// mostTree is the size of the LSM tree, in bytes, up to which the whole tree is compacted at once.
	// This takes some seconds. Badger compacts a larger tree only level by level, which suffices,
	// because there the removals in an upper level are a small part of the tree.
	mostTree = 1 << 30
	// DeadRatio is the fraction of a value log that must be garbage before the log is rewritten.
	DeadRatio = 0.5
)

// reclaimDB contains the methods of a Badger database with which a Reclaimer frees disk space.
type reclaimDB interface {
	Tables() []badger.TableInfo
	Size() (lsm, log int64)
	Flatten(workers int) error
	RunValueLogGC(ratio float64) error
	NewTransactionAt(version uint64, update bool) *badger.Txn
}

// reclaimConfig configures a [Reclaimer]. All fields are required.
type reclaimConfig struct {
	Dir string
	DB  reclaimDB
	// Synced returns the number of the newest synced commit.
	Synced func() uint64
	// Scrub verifies all tables before they are compacted. Without it, Badger would treat a block with
	// a wrong checksum as the end of its table and delete the table.
	Scrub func(ctx context.Context) error
	// Fits reports whether the disk has enough space for a number of bytes.
	Fits func(bytes int64) bool
	// Collecting records in the file HEAD, which a start checks, whether values of a value log are
	// being moved.
	Collecting func(now bool) error
	// Large is the size from which a value is stored in a value log, in bytes.
	Large int64
	// Before means that an earlier process may have removed rows. The first compaction then runs even
	// if this process has removed few rows.
	Before bool
}

// Reclaimer reclaims disk space. It is safe for concurrent use, but only one goroutine may call Reclaim and
// CollectOne.
type Reclaimer struct {
	cfg  reclaimConfig
	done chan struct{}
	// moving is locked while a value log is rewritten. Code that removes rows locks it for reading.
	moving sync.RWMutex

	mu sync.Mutex
	// removed is the approximate number of removed bytes, measured as they were stored on disk.
	removed int64

	// marks record how many bytes were removed up to certain commits. flushed is the part of removed
	// that is already in tables of the LSM tree. met is the part of flushed that compactions have
	// processed.
	marks        []mark
	flushed, met int64
	// priorChecked means that a compaction has processed the removals of earlier processes. shadowed
	// means that tables contain large values that were removed but not yet dropped.
	priorChecked, shadowed bool
}

type mark struct {
	version uint64
	removed int64
}

// newReclaimer makes a Reclaimer. It starts no work.
func newReclaimer(cfg reclaimConfig) *Reclaimer {
	return &Reclaimer{cfg: cfg, done: make(chan struct{})}
}

// Run frees disk space at the interval every until ctx ends. It calls tell with each error. It needs a
// goroutine of its own, because a compaction waits while the disk is nearly full.
func (r *Reclaimer) Run(ctx context.Context, every time.Duration, tell func(error)) {
	defer close(r.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.Reclaim(ctx); err != nil {
			tell(err)
		}
	}
}

// Done returns a channel that is closed when Run has ended.
func (r *Reclaimer) Done() <-chan struct{} { return r.done }

// Removed adds the size of rows that were removed. The removal must already be synced.
func (r *Reclaimer) Removed(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed += bytes
}

// Reclaim frees disk space where this is worthwhile. It may take seconds. If ctx ends, a running
// compaction or rewrite of a value log is not interrupted.
func (r *Reclaimer) Reclaim(ctx context.Context) error {
	return errors.Join(r.compact(ctx), r.collect(ctx))
}

// compact compacts the LSM tree, so that removed rows and the records of their removal are dropped. It does so
// only when tables contain enough removals, when a removed large value prevents the rewrite of a value log, or
// once after removals of an earlier process. The latest removals are still in the memtable and its log.
func (r *Reclaimer) compact(ctx context.Context) error {
	tables := r.cfg.DB.Tables()
	r.recordProgress(newest(tables))
	if !r.worthIt(tables) || ctx.Err() != nil {
		return nil
	}
	if err := r.cfg.Scrub(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := r.cfg.DB.Flatten(1); err != nil {
		return err
	}
	r.met, r.priorChecked, r.shadowed = r.flushed, true, false
	return nil
}

// recordProgress updates r.flushed, the number of removed bytes whose removal is in a table of the LSM
// tree. The argument flushed is the number of the newest commit in a table.
func (r *Reclaimer) recordProgress(flushed uint64) {
	// r.removed is read before the number of the synced commit. So this commit includes every removal
	// that r.removed counts.
	r.mu.Lock()
	now := r.removed
	r.mu.Unlock()
	if n := len(r.marks); now != r.flushed && (n == 0 || r.marks[n-1].removed != now) {
		r.marks = append(r.marks, mark{version: r.cfg.Synced(), removed: now})
	}
	for len(r.marks) > 0 && r.marks[0].version <= flushed {
		r.flushed, r.marks = r.marks[0].removed, r.marks[1:]
	}
}

func newest(tables []badger.TableInfo) (version uint64) {
	for i := range tables {
		version = max(version, tables[i].MaxVersion)
	}
	return version
}

// worthIt reports whether a compaction of the whole tree would free enough space. tables are the tables of the
// tree.
func (r *Reclaimer) worthIt(tables []badger.TableInfo) bool {
	tree, levels := int64(0), map[int]bool{}
	for i := range tables {
		tree += int64(tables[i].OnDiskSize)
		levels[tables[i].Level] = true
	}
	if len(levels) < 2 || tree > mostTree || !r.cfg.Fits(tree) {
		return false
	}
	if r.shadowed || r.cfg.Before && !r.priorChecked {
		return true
	}
	_, log := r.cfg.DB.Size()
	return r.flushed-r.met >= max(minRemovedBytes, (tree+log)/worthPart)
}

// collect rewrites the value logs of which at least half is garbage. It stops when the disk has too little
// space, or when CollectOne must wait for a compaction.
func (r *Reclaimer) collect(ctx context.Context) error {
	for ctx.Err() == nil && r.cfg.Fits(0) {
		err := r.CollectOne(ctx)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Hold prevents values from being moved to another value log until release is called. It is called
// before rows are removed. It waits while a value log is being rewritten.
func (r *Reclaimer) Hold() (release func()) {
	r.moving.RLock()
	return r.moving.RUnlock
}

// CollectOne rewrites one value log. If no log needs a rewrite, or none may be rewritten yet, the error
// is badger.ErrNoRewrite.
//
// When Badger rewrites a value log, it writes the moved values again with their old version, at the top
// of the LSM tree. If a lower level still has the removal of a moved value, a compaction would drop
// this removal together with the old copy, and the removed value would be visible again. Therefore no
// log is rewritten while the tree contains a large value whose removal is not compacted, and no row is
// removed during a rewrite.
func (r *Reclaimer) CollectOne(ctx context.Context) error {
	if some, err := datadir.WholeGarbage(r.cfg.Dir, DeadRatio); err != nil || !some {
		return orNoRewrite(err)
	}
	r.moving.Lock()
	defer r.moving.Unlock()
	removed, err := r.underRemovals(ctx)
	r.shadowed = removed > 0 && removed <= newest(r.cfg.DB.Tables())
	if err != nil || removed > 0 {
		return orNoRewrite(err)
	}
	if err := r.cfg.Collecting(true); err != nil {
		return err
	}
	return errors.Join(r.cfg.DB.RunValueLogGC(DeadRatio), r.cfg.Collecting(false))
}

func orNoRewrite(err error) error {
	if err == nil {
		return badger.ErrNoRewrite
	}
	return err
}

// underRemovals searches the LSM tree for removed large values that no compaction has dropped yet. It
// returns the version of the newest removal of such a value, or 0 if there is none. It reads all keys.
func (r *Reclaimer) underRemovals(ctx context.Context) (removed uint64, err error) {
	txn := r.cfg.DB.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{AllVersions: true})
	defer it.Close()
	var key []byte
	gone := uint64(0)
	for it.Rewind(); it.Valid(); it.Next() {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		// The newest version of a key comes first.
		item := it.Item()
		if !bytes.Equal(item.Key(), key) {
			key, gone = item.KeyCopy(key), 0
		}
		switch {
		case item.IsDeletedOrExpired():
			gone = max(gone, item.Version())
		case gone > 0 && item.EstimatedSize() >= r.cfg.Large:
			removed = max(removed, gone)
		}
	}
	return removed, nil
}
