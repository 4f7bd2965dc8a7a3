package store

import (
	"context"
	"errors"
	"io"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Backup writes what the store holds at this moment, or what is new since the backup
// after; at is Unix nanoseconds. The store works on meanwhile; what is superseded or
// deleted from now on takes its room until the backup is written. Errors:
// [backup.ErrForeign], those of the writer.
func (s *Store) Backup(ctx context.Context, after *backup.Header, at int64, out io.Writer) (backup.Header, error) {
	ts, err := s.reads.begin()
	if err != nil {
		return backup.Header{}, err
	}
	defer s.reads.end(ts)
	h, err := backup.Next(after, FormatVersion, s.epoch, ts, at)
	if err != nil {
		return h, err
	}
	return h, backup.Write(ctx, func(read func(txn *badger.Txn) error) error {
		txn := s.db.NewTransactionAt(ts, false)
		defer txn.Discard()
		return layout.Typed(read(txn))
	}, h, out)
}

// Restore makes a store in opts.Dir, which must be empty or absent, of a chain of backups
// whose order was tested, to be opened and checked. It is another store than the one that was
// backed up: it has an epoch of its own.
func Restore(ctx context.Context, opts Options, n int, open func(i int) (io.ReadCloser, error)) error {
	s, err := Open(opts)
	if err != nil {
		return err
	}
	err = backup.Restore(ctx, backup.Target{Format: FormatVersion, View: s.view, Write: func(ctx context.Context, ops []layout.Op) error {
		return s.write(ctx, &Writes{entry: -1, ops: ops})
	}}, n, open)
	return errors.Join(err, s.Close())
}
