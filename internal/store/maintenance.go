package store

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// maintenance does background work: it releases superseded values, runs the storage engine's own maintenance,
// and completes interrupted removals of rows. The engine also reclaims disk space until the same context ends.
type maintenance struct {
	store  *Store
	cancel context.CancelFunc
	done   chan struct{}
}

// discardInterval is the interval at which the store allows the storage engine to drop superseded versions of values,
// so that compactions can free their disk space.
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

// run does the regular work of a store until ctx ends: it lets the engine drop superseded values, syncs the mark
// of acknowledged commits, completes removals, and verifies the files.
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
			k.store.engine.Release(k.store.readTimestamps.oldestNeeded())
			k.failIfDamaged(k.store.engine.Check())
		case <-mark.C:
			k.failIfDamaged(k.store.engine.Sync())
			k.finishRemovals(ctx)
		case <-scrub.C:
			k.scrub(ctx)
		}
	}
}

// scrub verifies the files of the store. A file that cannot be opened now, for example because the process has no free
// descriptor, is tried again at the next interval.
func (k *maintenance) scrub(ctx context.Context) {
	err := k.store.engine.Scrub(ctx)
	if err != nil && !errors.Is(err, layout.ErrDamaged) {
		k.store.opts.Logger.Warn("files of the store not verified, retrying", "error", err)
		return
	}
	k.failIfDamaged(err)
}

// finishRemovals completes removals of rows that were interrupted because the disk was full. While a
// removal is incomplete, its object, for example a run, cannot be created again.
func (k *maintenance) finishRemovals(ctx context.Context) {
	if k.store.CheckRemovalSpace() != nil {
		return
	}
	if err := k.store.dropMarked(ctx); err != nil && ctx.Err() == nil {
		k.store.opts.Logger.Warn("interrupted removal failed again, retrying", "error", err)
	}
}

// failIfDamaged stops all writes if err is not nil, because err means that the store has lost data, cannot
// sync, or belongs to another process. Otherwise the store would accept writes that it may lose.
func (k *maintenance) failIfDamaged(err error) {
	if err != nil {
		k.store.opts.Logger.Error("store damaged, commits stopped", "error", err)
		k.store.fail(err)
	}
}
