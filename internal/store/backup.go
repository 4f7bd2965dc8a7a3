package store

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Backup writes a backup of the whole store to out. If after is the id of an earlier backup, it writes only
// what is newer than that backup, and all rows of the short-lived kinds, see package backup. at is the current
// time in Unix nanoseconds. The store accepts reads and writes meanwhile. Values that are superseded or deleted
// during the backup keep their disk space until the backup is written. Errors: [backup.ErrForeign], and the
// errors of out.
func (s *Store) Backup(ctx context.Context, after string, at int64, out io.Writer) (h backup.Header, err error) {
	err = s.withCommittedView(func(ts uint64, view backup.View) error {
		h, err = backup.Take(ctx, backup.Source{Format: FormatVersion, Epoch: s.epoch, Group: ts, View: view, Note: s.storeBackupRows}, after, at, out)
		return err
	})
	return h, err
}

// LastBackup returns the time at which the newest backup of this store began. It returns the zero time if the store
// remembers no backup, see [backup.Last]. A backup is remembered even if its last bytes did not reach the caller.
func (s *Store) LastBackup(now time.Time) (time.Time, error) { return backup.Last(s.view, now) }

// withCommittedView calls do with ts, the number of the last synced commit, and view, which opens a short read of
// the store at this commit. do may call view many times. The commit stays readable until do returns.
func (s *Store) withCommittedView(do func(ts uint64, view backup.View) error) error {
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

// CopyRunKeys copies the encryption keys of erasable runs into a directory. It must be called after the
// backup was written, see [keyring.Copy]. It returns false if the store has no keys.
func (s *Store) CopyRunKeys(dir string) (copied bool, err error) { return s.engine.Keys().CopyTo(dir) }

// put stores rows without preconditions and waits until they are synced to disk.
func (s *Store) put(ctx context.Context, ops []layout.Op) error {
	return s.write(ctx, &Writes{entry: -1, ops: ops})
}

// storeBackupRows stores the rows by which the store remembers its backups. If the disk is nearly full, storeBackupRows logs
// a warning and returns no error, so that the backup itself succeeds.
func (s *Store) storeBackupRows(ctx context.Context, ops []layout.Op) error {
	err := s.put(ctx, ops)
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Reason == datadir.DiskLow {
		s.opts.Logger.Warn("disk almost full, backup marker not stored", "error", err)
		return nil
	}
	return err
}

// Restore creates a store in opts.Dir from a chain of n backups. The directory must be empty or absent.
// The caller must have checked the order of the chain, and must open and check the store afterwards.
// The restored store has a new epoch (the id of a store), because it is a different store from the one
// that was backed up.
func Restore(ctx context.Context, opts Options, n int, open func(i int) (io.ReadCloser, error)) error {
	s, err := Open(opts)
	if err != nil {
		return err
	}
	err = backup.Restore(ctx, backup.Target{Format: FormatVersion, View: s.view, Write: s.runKeys.guardPut(s.put)}, n, open)
	return errors.Join(err, s.Close())
}
