package store

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// maintenance does the background work for which no caller waits and which writes no row: it
// drops superseded values and runs the engine's own maintenance. The reclaim of disk space runs
// beside it until the same context ends.
type maintenance struct {
	store  *Store
	cancel context.CancelFunc
	done   chan struct{}
}

// discardInterval is how often superseded versions are released to compaction.
const discardInterval = time.Second

func startMaintenance(s *Store) (*maintenance, error) {
	deleted := false
	err := s.view(func(txn *layout.Txn) error {
		deleted = anyUnder(txn, []byte{layout.KindDeleted})
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	s.engine.StartMaintenance(ctx, engine.Callbacks{Stored: s.readTimestamps.durable, Removed: deleted, Fail: s.fail})
	k := &maintenance{store: s, cancel: cancel, done: make(chan struct{})}
	go k.run(ctx)
	return k, err
}

func (k *maintenance) run(ctx context.Context) {
	defer close(k.done)
	discard := time.NewTicker(discardInterval)
	defer discard.Stop()
	mark := time.NewTicker(k.store.opts.MarkInterval)
	defer mark.Stop()
	scrub := time.NewTicker(k.store.opts.ScrubInterval)
	defer scrub.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-discard.C:
			k.store.engine.Release(k.store.readTimestamps.oldest())
			k.failIfDamaged(k.store.engine.Check())
		case <-mark.C:
			k.failIfDamaged(k.store.engine.Sync())
			k.finishRemovals(ctx)
		case <-scrub.C:
			k.failIfDamaged(k.store.engine.Scrub(ctx))
		}
	}
}

// finishRemovals completes removals that stopped because the disk was full. Until then no
// caller can create the removed thing again.
func (k *maintenance) finishRemovals(ctx context.Context) {
	if k.store.Removes() != nil {
		return
	}
	if err := k.store.dropMarked(ctx); err != nil && ctx.Err() == nil {
		k.store.opts.Logger.Warn("interrupted removal failed again, retrying", "error", err)
	}
}

// failIfDamaged fails a store that turns out not to hold what it should: going on would
// serve less than was acknowledged, or take what will be lost.
func (k *maintenance) failIfDamaged(err error) {
	if err != nil {
		k.store.opts.Logger.Error("store damaged, commits stopped", "error", err)
		k.store.fail(err)
	}
}
