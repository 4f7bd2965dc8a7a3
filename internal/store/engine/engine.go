package engine

import (
	"context"

	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Engine keeps the pairs of one store. It is open when the store gets it, and the store is its
// only writer. The methods are in the order of their first calls:
type Engine interface {
	kv.KV

	// Format is the one that the store is kept in from its opening on; what it says of itself may
	// be an older one until then.
	Format() uint32
	// Keys are those of the runs that can be erased. They lie where no copy of the pairs has
	// them.
	Keys() *keyring.Ring
	// Confirm compares what was acknowledged, as far as the engine remembers it apart from the
	// pairs, with what txn shows, which is what there is. repair: the newest entry need not be
	// there. Errors: *[layout.Damage].
	Confirm(txn *layout.Txn, epoch [16]byte, repair bool) error
	// Serve is called once everything is proven, before the first commit.
	Serve(group uint64, epoch [16]byte) error
	// StartMaintenance starts the reclaim of disk space, which runs until ctx ends.
	StartMaintenance(ctx context.Context, d Callbacks)

	// CheckSpace checks that there is space for a commit of so many bytes. frees: the commit
	// frees more than it takes. Errors: *machine.Refusal.
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

	// Check is called every second, Sync every Options.MarkInterval, Prove every
	// Options.ScrubInterval. An error of theirs fails the store.
	Check() error
	Sync() error
	Scrub(ctx context.Context) error
	// Sizes are the bytes on disk of the pairs, and of large values that lie apart.
	Sizes() (tree, log int64)
}

// Group is one that was stored.
type Group struct {
	Number uint64
	// Apart: it has a value of the size from which one lies apart, see [kv.Bounds].
	Apart bool
	// Last is its last entry, nil: it has none.
	Last *layout.LastEntry
}

// Callbacks are the functions of the store that an engine calls to reclaim space.
type Callbacks struct {
	// Stored is the newest group that was settled.
	Stored func() uint64
	// Removed: rows were removed by a process before this one.
	Removed bool
	// Fail fails the store.
	Fail func(error)
}
