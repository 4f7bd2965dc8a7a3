package store

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// keeper does the chores that no caller waits for and that write no row: what is superseded is
// let go of, the engine looks after itself. What gives room on disk back runs beside it, until
// the same context ends.
type keeper struct {
	store  *Store
	cancel context.CancelFunc
	done   chan struct{}
}

// discardInterval is how often superseded versions are released to compaction.
const discardInterval = time.Second

func startKeeper(s *Store) (*keeper, error) {
	deleted := false
	err := s.view(func(txn *layout.Txn) error {
		deleted = anyUnder(txn, []byte{layout.KindDeleted})
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	s.engine.Keep(ctx, engine.Duties{Stored: s.reads.durable, Removed: deleted, Fail: s.fail})
	k := &keeper{store: s, cancel: cancel, done: make(chan struct{})}
	go k.run(ctx)
	return k, err
}

func (k *keeper) run(ctx context.Context) {
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
			k.store.engine.Release(k.store.reads.oldest())
			k.damaged(k.store.engine.Look())
		case <-mark.C:
			k.damaged(k.store.engine.Sync())
			k.drop(ctx)
		case <-scrub.C:
			k.damaged(k.store.engine.Prove(ctx))
		}
	}
}

// drop ends removals whose caller met a full disk in the middle: until then nobody may
// make anew what is removed.
func (k *keeper) drop(ctx context.Context) {
	if k.store.Removes() != nil {
		return
	}
	if err := k.store.dropMarked(ctx); err != nil && ctx.Err() == nil {
		k.store.opts.Logger.Warn("interrupted removal failed again, retrying", "error", err)
	}
}

// damaged fails a store that turns out not to hold what it should: going on would
// serve less than was acknowledged, or take what will be lost.
func (k *keeper) damaged(err error) {
	if err != nil {
		k.store.opts.Logger.Error("store damaged, commits stopped", "error", err)
		k.store.fail(err)
	}
}
