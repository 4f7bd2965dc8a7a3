package store

import (
	"context"
	"errors"
	"io"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Backup writes the present contents of the store, or what is new since the backup with the id
// after; at is Unix nanoseconds. The store works on during the backup. Values that are
// superseded or deleted in that time keep their disk space until the backup is written. Errors:
// [backup.ErrForeign], those of the writer.
func (s *Store) Backup(ctx context.Context, after string, at int64, out io.Writer) (h backup.Header, err error) {
	err = s.hold(func(ts uint64, view backup.View) error {
		h, err = backup.Take(ctx, backup.Source{Format: FormatVersion, Epoch: s.epoch, Group: ts, View: view, Note: s.note}, after, at, out)
		return err
	})
	return h, err
}

// hold keeps the last synced group readable for as long as do lasts; view reads at it, in
// as many pages as the caller likes.
func (s *Store) hold(do func(ts uint64, view backup.View) error) error {
	ts, err := s.readTimestamps.begin()
	if err != nil {
		return err
	}
	defer s.readTimestamps.end(ts)
	held, err := s.engine.Hold(ts)
	if err != nil {
		return err
	}
	defer held.Close()
	return do(held.Group(), func(read func(txn *layout.Txn) error) error {
		return reading(s.txnOf(held.View()), read)
	})
}

// CopyRunKeys copies the keys of runs into a directory beside backups, which are written
// before: see [keyring.Copy]. false: there are none.
func (s *Store) CopyRunKeys(dir string) (copied bool, err error) { return s.engine.Keys().CopyTo(dir) }

// put stores rows that have no conditions, synced.
func (s *Store) put(ctx context.Context, ops []layout.Op) error {
	return s.write(ctx, &Writes{entry: -1, ops: ops})
}

// note stores marks of backups. A disk that is nearly full is backed up all the same.
func (s *Store) note(ctx context.Context, ops []layout.Op) error {
	err := s.put(ctx, ops)
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Reason == diskspace.DiskLow {
		s.opts.Logger.Warn("disk almost full, backup marker not stored", "error", err)
		return nil
	}
	return err
}

// Restore makes a store in opts.Dir, which must be empty or absent, from a chain of backups
// whose order was checked. The caller must open and check it afterwards. The result is a
// different store from the one that was backed up: it has its own epoch.
func Restore(ctx context.Context, opts Options, n int, open func(i int) (io.ReadCloser, error)) error {
	s, err := Open(opts)
	if err != nil {
		return err
	}
	err = backup.Restore(ctx, backup.Target{Format: FormatVersion, View: s.view, Write: s.runKeys.Guarded(s.put)}, n, open)
	return errors.Join(err, s.Close())
}
