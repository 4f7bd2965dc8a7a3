package engine

import (
	"context"

	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Engine keeps the pairs of one store. It is already open when the store gets it, and the store is
// its only writer. The methods are in the order in which the store first calls them.
type Engine interface {
	kv.KV

	// Format returns the format in which the store is kept after its opening. Until then the
	// store's own marker may name an older format.
	Format() uint32
	// Keys returns the keys of erasable runs. They are stored in a place that a copy of the pairs
	// does not include.
	Keys() *keyring.Ring
	// Confirm compares the acknowledged commits, as far as the engine records them separately from
	// the pairs, with the pairs that txn shows. If repair is true, the newest entry may be missing.
	// Errors: *[layout.Damage].
	Confirm(txn *layout.Txn, epoch [16]byte, repair bool) error
	// Serve is called once everything is proven, before the first commit.
	Serve(group uint64, epoch [16]byte) error
	// StartMaintenance starts the reclaim of disk space, which runs until ctx ends.
	StartMaintenance(ctx context.Context, d Callbacks)

	// CheckSpace returns an error if there is too little space for a commit of bytes bytes. frees
	// means that the commit frees more space than it takes. Errors: *machine.Error.
	CheckSpace(bytes int64, frees bool) error
	// Settled is called with a stored group before its callers are answered. An error makes the
	// group's outcome unknown.
	Settled(g Group) error
	// BeginLargeDelete is called before large values are removed, and release once their
	// removal is stored. Removed then gets the approximate number of freed bytes.
	BeginLargeDelete() (release func())
	Removed(bytes int64)
	// Fatal sends one error when the engine can never store a group again.
	Fatal() <-chan error

	// Check is called every second, Sync every Options.MarkInterval, and Scrub every
	// Options.ScrubInterval. If one of them returns an error, the store fails.
	Check() error
	Sync() error
	Scrub(ctx context.Context) error
	// Sizes returns the bytes on disk of the pairs (tree), and of large values that are stored
	// separately (log).
	Sizes() (tree, log int64)
}

// Group describes a stored group.
type Group struct {
	Number uint64
	// Apart means that the group has a value large enough to be stored separately; see [kv.Bounds].
	Apart bool
	// Last is the last entry of the group, nil if it has none.
	Last *layout.LastEntry
}

// Callbacks are the functions of the store that an engine calls to reclaim space.
type Callbacks struct {
	// Stored returns the newest group that was settled.
	Stored func() uint64
	// Removed means that an earlier process has removed rows.
	Removed bool
	// Fail makes the store fail.
	Fail func(error)
}
