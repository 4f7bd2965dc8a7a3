package store

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/removal"
)

// DeleteRun deletes a run that has ended, synced; see [removal.Remover.Run].
func (s *Store) DeleteRun(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error) {
	if err := s.eraser.ForDeletion(ctx, ns, run, &asked); err != nil {
		return d, false, err
	}
	return s.remover.Run(ctx, ns, run, asked)
}

// RunBytes is about what the rows of a run take on disk; see [removal.Remover.Bytes].
func (s *Store) RunBytes(ctx context.Context, ns uint32, run string) (int64, error) {
	return s.remover.Bytes(ctx, ns, run)
}

// Untold reports whether an agent still has to receive the cancellation of a delegation of the
// run.
func (s *Store) Untold(ctx context.Context, ns uint32, run string) (bool, error) {
	return s.remover.Untold(ctx, ns, run)
}

// ForgetDeleted forgets the runs of a namespace that were deleted before a time; see
// [removal.Remover.Prune].
func (s *Store) ForgetDeleted(ctx context.Context, ns uint32, before int64) (int, error) {
	return s.remover.Prune(ctx, ns, before)
}

// View reads at the last synced group, for packages of the store.
func (s *Store) View(read func(txn *layout.Txn) error) error { return s.view(read) }

// writeRemoval stores a change of a removal.
func (s *Store) writeRemoval(ctx context.Context, c removal.Change) error {
	w := &Writes{ns: c.Ns, entry: -1, ops: c.Ops, run: c.Head, prev: c.Last, reclaimsSpace: true}
	if c.Mark != nil {
		w.expects = []expect{{key: c.Mark, predicate: present, err: removal.ErrEnded}}
	}
	err := s.write(ctx, w)
	if err == nil {
		s.engine.Removed(c.Bytes)
	}
	return err
}

// Removes returns nil if the disk has space for a page of a removal, otherwise the reason.
func (s *Store) Removes() error {
	return s.checkSpace(&Writes{reclaimsSpace: true, size: size{bytes: dropBytes}})
}

// checkSpace checks that the disk has space for writes.
func (s *Store) checkSpace(w *Writes) error {
	return s.engine.CheckSpace(w.size.bytes, w.reclaimsSpace)
}

// dropRun ends a removal of a run that was broken off.
func (s *Store) dropRun(ctx context.Context, p []byte) error {
	ns, run, err := layout.RunOf(p)
	if err != nil {
		return err
	}
	return s.remover.Finish(ctx, ns, run)
}
