package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Compaction is the result of compacting a directory.
type Compaction struct {
	Dir  string
	Rows int64
	// Before is the disk space before the compaction, and After the disk space after it, in bytes.
	Before, After int64
}

// Compact rewrites the store in opts.Dir without superseded and removed values. No other process may
// have the store open. If to is not "", Compact writes the new store into the directory to. If to is
// "", Compact builds the new store next to the old one and then replaces the old one in one step.
//
// Compact first checks the whole new store. graphs returns the workflow graphs of the packs in it. If
// Compact is interrupted, the directory has its old contents, and the next call removes the partial
// result. The new store has the same id (epoch), and its rows have the same versions. If opts.Dir is a
// symbolic link, it stays a link.
//
// Errors: [datadir.ErrLocked], [ErrFormat], *machine.Error DISK_LOW, [datadir.ErrSwap].
func Compact(ctx context.Context, opts Options, to string, graphs func(*Store) check.Graphs) (out Compaction, err error) {
	dir := filepath.Clean(opts.Dir)
	out.Dir = to
	if to == "" {
		out.Dir = dir
	}
	if err = compactInto(ctx, opts, to, graphs, &out); err != nil {
		err = fmt.Errorf("compact %s: %w", dir, err)
	}
	return out, err
}

// compactInto does the work of [Compact] and sets the result in out. The old directory stays locked meanwhile.
func compactInto(ctx context.Context, opts Options, to string, graphs func(*Store) check.Graphs, out *Compaction) (err error) {
	old, dir, err := openOld(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Unlock()) }()
	at, err := datadir.StagedAt(opts.Dir, to)
	if at.Free, at.Spare = old.opts.FreeSpace, old.opts.MinFree; err == nil {
		err = old.rewrite(ctx, &at, dir, graphs, out)
	}
	if err = errors.Join(err, dir.CloseFiles()); err == nil {
		out.After, err = at.Settle()
	}
	return err
}

// rewrite copies the rows of this store into a new store and then checks all invariants of the new
// store.
func (s *Store) rewrite(ctx context.Context, at *datadir.StagedDir, dir *badgerengine.Directory, graphs func(*Store) check.Graphs, out *Compaction) error {
	err := s.checkFormat()
	if at.Epoch, at.Group = s.epoch, dir.LastKey(); err == nil {
		// A compaction is no repair, so the last acknowledged entry must exist.
		err = s.viewAt(dir.LastKey(), func(txn *layout.Txn) error { return dir.Confirm(txn, s.epoch, false) })
	}
	if err == nil {
		out.Before, err = at.Clear()
	}
	if err != nil {
		return err
	}
	opts := s.opts
	opts.Dir, opts.migrating = at.To, true
	err = datadir.WithLock(at.To, func() error {
		var err error
		if out.Rows, err = dir.CopyInto(ctx, at.To); err == nil {
			_, err = keyring.Copy(filepath.Join(at.From, keyring.Name), at.To)
		}
		return err
	})
	if err != nil {
		return err
	}
	fresh, err := Open(opts)
	if err != nil {
		return err
	}
	_, err = fresh.Check(ctx, graphs(fresh))
	return errors.Join(err, fresh.view(dir.OpenedMark().CheckIn), fresh.Close())
}
