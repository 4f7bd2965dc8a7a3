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
	// worth is how much must have been removed before tables are compacted for it, and
	// worthPart the part of the store that it must be.
	worth     = 8 << 20
	worthPart = 10
	// mostTree is the size of the tree up to which all of it is compacted at once: some
	// seconds. The levels of a larger one are full in the course of things, and what was
	// removed in an upper one is a small part of it.
	mostTree = 1 << 30
	// DeadRatio is the part of a value log that must be dead to be rewritten.
	DeadRatio = 0.5
)

// reclaimDB is the part of Badger that a Reclaimer uses.
type reclaimDB interface {
	Tables() []badger.TableInfo
	Size() (lsm, log int64)
	Flatten(workers int) error
	RunValueLogGC(ratio float64) error
	NewTransactionAt(version uint64, update bool) *badger.Txn
}

// reclaimConfig is everything that a [Reclaimer] needs; all of it is required.
type reclaimConfig struct {
	Dir string
	DB  reclaimDB
	// Synced is the newest version that is synced.
	Synced func() uint64
	// Scrub reads all tables before they are compacted: Badger takes a block that fails its
	// checksum for the end of its table, and deletes the table then.
	Scrub func(ctx context.Context) error
	// Fits reports whether the disk has space for so many bytes.
	Fits func(bytes int64) bool
	// Collecting notes that values are being moved, or no longer.
	Collecting func(now bool) error
	// Large is the size in bytes from which a value lies in a value log.
	Large int64
	// Before: rows may have been removed by a process before this one.
	Before bool
}

// Reclaimer reclaims disk space. Safe for concurrent use; one goroutine calls Reclaim.
type Reclaimer struct {
	cfg  reclaimConfig
	done chan struct{}
	// moving is held while a value log is rewritten. The removal of rows holds it for reading.
	moving sync.RWMutex

	mu sync.Mutex
	// removed is about how many bytes were, as they lay on disk.
	removed int64

	// marks say how much it was by which version; those in tables are in flushed, and of
	// that compaction has met so much.
	marks        []mark
	flushed, met int64
	// priorChecked: what processes before left was looked at. buried: tables hold large values
	// under their removals.
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

// Run reclaims space at the interval every until ctx ends, and reports errors to tell. It needs
// a goroutine of its own, because a compaction may be held for as long as the disk is nearly
// full.
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

// Done is closed when Run has ended.
func (r *Reclaimer) Done() <-chan struct{} { return r.done }

// Removed notes the size of rows whose removal is synced.
func (r *Reclaimer) Removed(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed += bytes
}

// Reclaim gives back what is worth it. It may take seconds, and is not broken off in the
// middle of a compaction or of a value log.
func (r *Reclaimer) Reclaim(ctx context.Context) error {
	return errors.Join(r.compact(ctx), r.collect(ctx))
}

// compact brings removals and what they remove together, once they are in tables: what was
// removed last lies in memory and in its log until the memtable is full.
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

// recordProgress notes how much was removed by now, and how much of it lies in tables.
func (r *Reclaimer) recordProgress(flushed uint64) {
	// Before the version, which covers it: what is counted is synced.
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
	return r.flushed-r.met >= max(worth, (tree+log)/worthPart)
}

// collect rewrites value logs of which half is dead, until none is left.
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

// Hold keeps rows in place until release is called. The removal of rows calls it, and may wait
// for a value log that is being rewritten.
func (r *Reclaimer) Hold() (release func()) {
	r.moving.RLock()
	return r.moving.RUnlock
}

// CollectOne rewrites one file. badger.ErrNoRewrite: there is none, or none may be rewritten
// yet.
//
// Badger writes moved values again under their old version, above everything. A removal of a
// value that lies below would be compacted first, together with the old copy, and the removed
// value would be visible again. So no file is rewritten while a large value lies under its
// removal, and no row is removed during a rewrite.
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

// underRemovals searches for removed large values that are not compacted away, and returns the
// version of the newest removal; 0 = there is none. It reads all keys.
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
