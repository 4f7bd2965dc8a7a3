package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// MoveOut opens the storage engine of a store and calls do, which can copy the store from it. No other
// process may have the store open. MoveOut writes no rows. Errors: the errors of [Open].
func MoveOut(opts Options, do func(from engine.Engine) error) (err error) {
	s, err := openQuiet(opts)
	if err != nil {
		return openError(opts.Dir, "nothing was changed", err)
	}
	defer func() { err = errors.Join(err, s.engine.Close()) }()
	if s.engine.LastKey() == 0 {
		return fmt.Errorf("%w: %s holds no store", ErrFormat, s.opts.Dir)
	}
	if err := s.checkFormat(); err != nil {
		return openError(opts.Dir, "nothing was changed", err)
	}
	// A move is no repair, so the last acknowledged entry must exist.
	err = s.viewAt(s.engine.LastKey(), func(txn *layout.Txn) error { return s.engine.Confirm(txn, s.epoch, false) })
	if err != nil {
		return openError(opts.Dir, "nothing was changed", err)
	}
	return do(s.engine)
}

func openQuiet(opts Options) (*Store, error) {
	if opts.Engine == nil {
		s, _, err := openOld(opts)
		return s, err
	}
	opts = opts.withDefaults()
	e, err := opts.Engine(opts)
	return &Store{opts: opts, engine: e}, err
}

// MoveIn copies a store into the directory opts.Dir, with its epoch (id), the numbers of its commit
// groups and the keys of its runs. The directory must be empty or absent. It gets its name only when it
// is complete and checked. If MoveIn is interrupted, the next call starts again from the beginning.
func MoveIn(ctx context.Context, opts Options, from engine.Engine, graphs func(*Store) check.Graphs) (report check.Report, err error) {
	opts = opts.withDefaults()
	place := stagedAt(opts.Dir)
	if err := place.Clear(); err != nil {
		return report, err
	}
	opts.migrated("cleared")
	opts.Dir, opts.migrating = place.Next, true
	err = datadir.WithLock(place.Next, func() error {
		if _, err := badgerengine.Fill(ctx, opts.directory(), from); err != nil {
			return err
		}
		keys, err := keyring.InFile(place.Next)
		if err == nil {
			err = errors.Join(from.Keys().CopyToMedium(keys, opts.EncryptionKey), keys.Close())
		}
		return err
	})
	if err == nil {
		opts.migrated("copied")
		err = opts.sameAs(ctx, from)
	}
	if err == nil {
		report, err = opts.checkNewStore(ctx, graphs)
	}
	if err != nil {
		return report, err
	}
	opts.migrated("proven")
	return report, place.Settle(opts.migrated)
}

// sameAs compares the key-value pairs of the directory with those of the storage engine from which it
// was copied.
func (o Options) sameAs(ctx context.Context, from engine.Engine) error {
	dir, err := badgerengine.OpenOld(o.directory())
	if err != nil {
		return err
	}
	return errors.Join(SamePairs(ctx, from, dir), dir.Close())
}

// SamePairs compares the key-value pairs of two storage engines. If they differ, the error is a
// *[PairsDifferError].
func SamePairs(ctx context.Context, from, to engine.Engine) error {
	want, err := sumOf(ctx, from)
	if err != nil {
		return err
	}
	got, err := sumOf(ctx, to)
	if err == nil && got != want {
		err = &PairsDifferError{From: want, To: got}
	}
	return err
}

func (o Options) checkNewStore(ctx context.Context, graphs func(*Store) check.Graphs) (report check.Report, err error) {
	s, err := Open(o)
	if err != nil {
		return report, err
	}
	report, err = s.Check(ctx, graphs(s))
	return report, errors.Join(err, s.Close())
}

// movedMark is the content of the progress file while a directory already has its final name but is not
// yet usable. A move writes this file.
const movedMark = "moved\n"

// stagedDir describes where a move creates a directory: it is built under the name Next and then
// renamed to Final, which must be empty or absent.
type stagedDir struct{ Final, Next string }

// stagedAt returns the stagedDir for a final directory name.
func stagedAt(final string) stagedDir { return stagedDir{Final: final, Next: final + ".migrating"} }

// Clear removes the remains of an interrupted move, under the final name or the temporary name, and
// nothing else. Errors: [datadir.ErrLocked].
func (p stagedDir) Clear() error {
	if UnfinishedMove(p.Final) {
		err := datadir.WithLock(p.Final, func() error { return datadir.Remove(p.Final) })
		if err != nil {
			return err
		}
	}
	return datadir.ClearFor(p.Next)
}

// Settle renames the new directory to its final name. Until it has returned, the directory cannot be
// opened as a store.
func (p stagedDir) Settle(step func(string)) error {
	if err := datadir.SetProgress(p.Next, movedMark); err != nil {
		return err
	}
	step("complete")
	// os.Rename would refuse an empty directory at the destination, and the system call replaces it in
	// one step.
	if err := syscall.Rename(p.Next, p.Final); err != nil {
		return &os.LinkError{Op: "rename", Old: p.Next, New: p.Final, Err: err}
	}
	if err := datadir.SyncDir(filepath.Dir(p.Final)); err != nil {
		return err
	}
	step("placed")
	return datadir.SettleIn(p.Final)
}

// UnfinishedMove reports whether a move was interrupted after the directory dir got its final name. The
// next move then creates the directory again.
func UnfinishedMove(dir string) bool { return datadir.Progress(dir) == movedMark }

// pairSum is a checksum of all key-value pairs of a storage engine. It does not depend on the order in
// which the pairs are read.
type pairSum struct {
	Rows  int64
	Bytes int64
	// Group is the number of the newest commit group that set one of the pairs.
	Group uint64
	// Digest is the sum of the SHA-256 digests of all pairs. The digest of a pair includes the number
	// of the commit group that set the pair.
	Digest [4]uint64
}

// Add adds a pair to the checksum.
func (s *pairSum) Add(key, value []byte, group uint64) {
	h := sha256.New()
	var head [16]byte
	binary.BigEndian.PutUint64(head[:], group)
	binary.BigEndian.PutUint64(head[8:], uint64(len(key)))
	h.Write(head[:])
	h.Write(key)
	h.Write(value)
	digest := h.Sum(nil)
	for i := range s.Digest {
		s.Digest[i] += binary.BigEndian.Uint64(digest[8*i:])
	}
	s.Rows, s.Bytes, s.Group = s.Rows+1, s.Bytes+int64(len(key)+len(value)), max(s.Group, group)
}

// sumOf returns the checksum of a storage engine's pairs. The engine must have no writers.
func sumOf(ctx context.Context, e kv.KV) (s pairSum, err error) {
	err = eachPair(ctx, e, func(key, value []byte, group uint64) error {
		s.Add(key, value, group)
		return nil
	})
	return s, err
}

// eachPair calls do for every pair of a storage engine, in the order of the keys. The engine must have
// no writers. key and value are valid only until do returns.
func eachPair(ctx context.Context, e kv.KV, do func(key, value []byte, group uint64) error) error {
	view := kv.On(e.View(e.LastKey()))
	defer view.Close()
	it := view.Scan(kv.Range{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := layout.CopyOf(it)
		if err == nil {
			err = do(it.Key(), value, it.Group())
		}
		if err != nil {
			return err
		}
	}
	return view.Err()
}

// PairsDifferError means that the copy that a move made differs from the original.
type PairsDifferError struct{ From, To pairSum }

// Error returns a text with the counts of the original and of the copy.
func (e *PairsDifferError) Error() string {
	return fmt.Sprintf("the copy is not what was copied: %d pairs of %d bytes up to group %d, of %d pairs of %d bytes up to group %d",
		e.To.Rows, e.To.Bytes, e.To.Group, e.From.Rows, e.From.Bytes, e.From.Group)
}
