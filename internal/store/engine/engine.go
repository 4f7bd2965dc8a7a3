package engine

import (
	"context"

	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Engine keeps the key-value pairs of one store. It must be open before the store uses it, and the
// store is its only writer. The methods are listed in the order in which the store first calls them.
type Engine interface {
	kv.KV

	// Format returns the storage format that the store has after it was opened. Until then, the store's
	// own format row may contain an older format.
	Format() uint32
	// Keys returns the encryption keys of erasable runs. They are stored separately, so that a copy of
	// the pairs does not include them.
	Keys() *keyring.Ring
	// Confirm returns damage if the pairs in txn lack an acknowledged commit. A storage engine may
	// record the acknowledged commits separately, for example in a file. If repair is true, the newest
	// entry may be missing. Errors: *[layout.Damage].
	Confirm(txn *layout.Txn, epoch [16]byte, repair bool) error
	// Serve is called when the store was checked, before its first commit.
	Serve(group uint64, epoch [16]byte) error
	// StartMaintenance starts to reclaim disk space in the background until ctx ends.
	StartMaintenance(ctx context.Context, d Callbacks)

	// CheckSpace returns an error if there is too little space for a commit of the given size. frees reports
	// whether the commit frees more space than it needs. Errors: *machine.Error, *[layout.Damage], and errors of
	// the measurement.
	CheckSpace(bytes int64, frees bool) error
	// Settled is called when a group of commits is stored, before its callers are answered. If it
	// returns an error, the store treats the outcome of the group as unknown.
	Settled(g Group) error
	// BeginLargeDelete is called before large values are removed. release is called after their removal
	// is stored. Then Removed is called with the approximate number of freed bytes.
	BeginLargeDelete() (release func())
	Removed(bytes int64)
	// Fatal returns a channel that receives an error if the storage engine can never store a commit
	// group again.
	Fatal() <-chan error

	// Check is called every second, Sync is called every Options.MarkInterval, and Scrub is called
	// every Options.ScrubInterval. If one of them returns an error, the store fails. After an error of Scrub that is no
	// damage, it is only called again.
	Check() error
	Sync() error
	Scrub(ctx context.Context) error
	// Sizes returns the disk space in bytes: tree for the pairs, and log for large values that are
	// stored separately.
	Sizes() (tree, log int64)
}

// Group describes a stored group of commits.
type Group struct {
	Number uint64
	// Apart reports whether the commit group has a value that is large enough to be stored separately,
	// see [kv.Bounds].
	Apart bool
	// Last is the last entry of the commit group. It is nil if the group has no entries.
	Last *layout.LastEntry
}

// Callbacks are what a storage engine gets from the store in order to reclaim space.
type Callbacks struct {
	// Stored returns the number of the newest commit group that was stored.
	Stored func() uint64
	// Removed reports whether an earlier process has removed rows.
	Removed bool
	// Fail makes the store fail.
	Fail func(error)
}
