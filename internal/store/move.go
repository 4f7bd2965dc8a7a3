package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// MoveOut opens the engine of a store and calls do, so that do can copy the engine. No other process
// may have the store open. MoveOut writes no rows. Errors: the errors of [Open].
func MoveOut(opts Options, do func(from engine.Engine) error) (err error) {
	s, err := openQuiet(opts)
	if err != nil {
		return openError(opts.Dir, "nothing was changed", err)
	}
	defer func() { err = errors.Join(err, s.engine.Close()) }()
	if s.engine.Last() == 0 {
		return fmt.Errorf("%w: %s holds no store", ErrFormat, s.opts.Dir)
	}
	if err := s.checkFormat(); err != nil {
		return openError(opts.Dir, "nothing was changed", err)
	}
	err = s.viewAt(s.engine.Last(), func(txn *layout.Txn) error { return s.engine.Confirm(txn, s.epoch, false) })
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

// MoveIn copies a store into the directory opts.Dir, with its epoch, its groups and the keys of its
// runs. The directory must be empty or absent. The directory gets this name only when it is complete
// and checked. If MoveIn is interrupted at any moment, the next call starts again from the beginning.
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
			err = errors.Join(from.Keys().Into(keys, opts.EncryptionKey), keys.Close())
		}
		return err
	})
	if err == nil {
		opts.migrated("copied")
		err = opts.sameAs(ctx, from)
	}
	if err == nil {
		report, err = opts.proven(ctx, graphs)
	}
	if err != nil {
		return report, err
	}
	opts.migrated("proven")
	return report, place.Settle(opts.migrated)
}

// sameAs compares the pairs of the directory with the pairs of the engine from which it was copied.
func (o Options) sameAs(ctx context.Context, from engine.Engine) error {
	dir, err := badgerengine.OpenOld(o.directory())
	if err != nil {
		return err
	}
	return errors.Join(SamePairs(ctx, from, dir), dir.Close())
}

// SamePairs compares the pairs of two engines. If they differ, the error is a *[PairsDifferError].
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

func (o Options) proven(ctx context.Context, graphs func(*Store) check.Graphs) (report check.Report, err error) {
	s, err := Open(o)
	if err != nil {
		return report, err
	}
	report, err = s.Check(ctx, graphs(s))
	return report, errors.Join(err, s.Close())
}
