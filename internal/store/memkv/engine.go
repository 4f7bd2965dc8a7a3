package memkv

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Engine makes a DB usable as the storage engine of a store. The keys of erasable runs are in a
// directory, which Engine locks.
type Engine struct {
	*DB
	lock *datadir.DirLock
	keys *keyring.Ring
}

var _ engine.Engine = (*Engine)(nil)

// Open opens a new or closed database and locks the directory dir for its file of run keys. keyStep is
// a test hook that is called before each write of this file.
func Open(db *DB, dir string, keyStep func(string) error) (*Engine, error) {
	if err := datadir.MakeDir(dir); err != nil {
		return nil, err
	}
	lock, err := datadir.LockDir(dir)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.Open(dir, nil, keyStep)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	db.Reopen()
	return &Engine{DB: db, lock: lock, keys: keys}, nil
}

// Close closes the database and releases the lock. Another Open can use the pairs afterwards.
func (e *Engine) Close() error { return errors.Join(e.DB.Close(), e.keys.Close(), e.lock.Release()) }

// Keys returns the keys of erasable runs, which are in a file.
func (e *Engine) Keys() *keyring.Ring { return e.keys }

// Format returns the newest format.
func (e *Engine) Format() uint32 { return layout.Format }

// Confirm does nothing, because a storage engine in memory does not record the acknowledged commits
// separately.
func (e *Engine) Confirm(*layout.Txn, [16]byte, bool) error { return nil }

// Serve does no work.
func (e *Engine) Serve(uint64, [16]byte) error { return nil }

// StartMaintenance does nothing, because there is no disk space to reclaim.
func (e *Engine) StartMaintenance(context.Context, engine.Callbacks) {}

// CheckSpace always returns nil.
func (e *Engine) CheckSpace(int64, bool) error { return nil }

// Settled does no work.
func (e *Engine) Settled(engine.Group) error { return nil }

// BeginLargeDelete does no work.
func (e *Engine) BeginLargeDelete() (release func()) { return func() {} }

// Removed does no work.
func (e *Engine) Removed(int64) {}

// Fatal returns a channel that never receives.
func (e *Engine) Fatal() <-chan error { return nil }

// Check always returns nil.
func (e *Engine) Check() error { return nil }

// Sync does no work.
func (e *Engine) Sync() error { return nil }

// Scrub does no work.
func (e *Engine) Scrub(context.Context) error { return nil }

// Sizes returns zeros, because nothing is on disk.
func (e *Engine) Sizes() (tree, log int64) { return 0, 0 }
