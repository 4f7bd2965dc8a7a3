package store

import (
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/inspect"
)

// keeper does the chores that no caller waits for and that write no row: the discard
// timestamp, the head file, value-log collection, a look at all checksums. Compaction is
// Badger's own.
type keeper struct {
	store  *Store
	cancel context.CancelFunc
	done   chan struct{}
}

// discardInterval is how often superseded versions are released to compaction.
const discardInterval = time.Second

func startKeeper(s *Store) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{store: s, cancel: cancel, done: make(chan struct{})}
	go k.run(ctx)
	return k
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	discard := time.NewTicker(discardInterval)
	defer discard.Stop()
	mark := time.NewTicker(k.store.opts.MarkInterval)
	defer mark.Stop()
	gc := time.NewTicker(k.store.opts.GCInterval)
	defer gc.Stop()
	scrub := time.NewTicker(k.store.opts.ScrubInterval)
	defer scrub.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-discard.C:
			k.store.db.SetDiscardTs(k.store.reads.oldest())
			k.damaged(k.store.head.Look())
		case <-mark.C:
			k.damaged(k.store.head.Sync())
			k.drop(ctx)
		case <-gc.C:
			k.collect(ctx)
		case <-scrub.C:
			k.damaged(k.store.scrub(ctx))
		}
	}
}

// drop ends removals whose caller met a full disk in the middle: until then nobody may
// make anew what is removed.
func (k *keeper) drop(ctx context.Context) {
	if k.store.disk.Check(0) != nil {
		return
	}
	if err := k.store.dropMarked(ctx); err != nil && ctx.Err() == nil {
		k.store.opts.Logger.Warn("a removal that was broken off waits", "error", err)
	}
}

// damaged fails a store that turns out not to hold what it should: going on would
// serve less than was acknowledged, or take what will be lost.
func (k *keeper) damaged(err error) {
	if err != nil {
		k.store.opts.Logger.Error("the store takes nothing more", "error", err)
		k.store.fail(err)
	}
}

// collectRatio is the part of a value-log file that must be dead.
const collectRatio = 0.5

// collect rewrites value-log files of which half is dead, until none is left or
// the store closes. It writes, so it keeps away from a full disk.
func (k *keeper) collect(ctx context.Context) {
	for ctx.Err() == nil && k.store.disk.Check(0) == nil {
		err := k.store.collectOne()
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return
		}
		if err != nil {
			k.store.opts.Logger.Warn("value log not collected", "error", err)
			return
		}
	}
}

// collectOne rewrites one file, and says in the HEAD file that it is at it.
func (s *Store) collectOne() error {
	if err := inspect.WholeGarbage(s.opts.Dir, collectRatio); err != nil {
		return err
	}
	if err := s.head.Collect(true); err != nil {
		return err
	}
	return errors.Join(s.db.RunValueLogGC(collectRatio), s.head.Collect(false))
}
