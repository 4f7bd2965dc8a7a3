package store

import (
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// keeper does the chores that no caller waits for: the discard timestamp, the
// stored watermarks, value-log collection. Compaction is Badger's own.
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

func (k *keeper) end() {
	k.cancel()
	<-k.done
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	discard := time.NewTicker(discardInterval)
	defer discard.Stop()
	mark := time.NewTicker(k.store.opts.MarkInterval)
	defer mark.Stop()
	gc := time.NewTicker(k.store.opts.GCInterval)
	defer gc.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-discard.C:
			k.store.db.SetDiscardTs(k.store.reads.oldest())
		case <-mark.C:
			k.storeMarks(ctx)
		case <-gc.C:
			k.collect(ctx)
		}
	}
}

// storeMarks is best effort: an older stored mark is as right, only slower.
func (k *keeper) storeMarks(ctx context.Context) {
	if ops := k.store.marks.moved(); len(ops) > 0 {
		if err := k.store.CommitRaw(ctx, ops); err != nil {
			k.store.opts.Logger.Warn("watermarks not stored", "error", err)
		}
	}
}

// collect rewrites value-log files of which half is dead, until none is left or
// the store closes. It writes, so it keeps away from a full disk.
func (k *keeper) collect(ctx context.Context) {
	for ctx.Err() == nil && k.store.disk.check(0) == nil {
		err := k.store.db.RunValueLogGC(0.5)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return
		}
		if err != nil {
			k.store.opts.Logger.Warn("value log not collected", "error", err)
			return
		}
	}
}
