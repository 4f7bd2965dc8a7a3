package store

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/removal"
)

// DeleteRun deletes a run that has ended and waits until the deletion is synced, see
// [removal.Remover.Run].
func (s *Store) DeleteRun(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error) {
	if err := s.eraser.ForDeletion(ctx, ns, run, &asked); err != nil {
		return d, false, err
	}
	return s.remover.Run(ctx, ns, run, asked)
}

// RunBytes returns the approximate disk space of the rows of a run in bytes, see
// [removal.Remover.Bytes].
func (s *Store) RunBytes(ctx context.Context, ns uint32, run string) (int64, error) {
	return s.remover.Bytes(ctx, ns, run)
}

// Untold reports whether an agent has not yet received the cancellation of a delegation of the run.
func (s *Store) Untold(ctx context.Context, ns uint32, run string) (bool, error) {
	return s.remover.Untold(ctx, ns, run)
}

// ForgetDeleted removes the remains of the runs of a namespace that were deleted before a time, in Unix
// nanoseconds, see [removal.Remover.Prune].
func (s *Store) ForgetDeleted(ctx context.Context, ns uint32, before int64) (int, error) {
	return s.remover.Prune(ctx, ns, before)
}

// View reads the last synced group. It is for the packages of the store.
func (s *Store) View(read func(txn *layout.Txn) error) error { return s.view(read) }

// writeRemoval stores one change of a removal and reports the freed bytes to the engine.
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

// Removes returns nil if the disk has enough space for one page of a removal. Otherwise it returns the
// reason.
func (s *Store) Removes() error {
	return s.checkSpace(&Writes{reclaimsSpace: true, size: size{bytes: dropBytes}})
}

// checkSpace returns an error if the disk has too little space for the writes.
func (s *Store) checkSpace(w *Writes) error {
	return s.engine.CheckSpace(w.size.bytes, w.reclaimsSpace)
}

// dropRun completes an interrupted removal of a run. p is the prefix of the removal's mark.
func (s *Store) dropRun(ctx context.Context, p []byte) error {
	ns, run, err := layout.RunOf(p)
	if err != nil {
		return err
	}
	return s.remover.Finish(ctx, ns, run)
}
