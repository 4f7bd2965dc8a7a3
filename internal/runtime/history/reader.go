package history

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Store is the part of the store that a [Reader] uses.
type Store interface {
	// Entries returns a run's entries that contain records with seq >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the entry that contains the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Checkpoint returns a stored state of a run: the newest one with a seq that is not greater than the given seq. It
	// returns nil if there is none, so that a replay begins at the first record.
	Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error)
	// ArtifactVersions lists the writes of one artifact with seq <= atSeq, in order. If newestOnly is true, it returns
	// only the last of them.
	ArtifactVersions(ctx context.Context, ns uint32, run, name string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error)
	// ArtifactVersionsAfter lists the writes of one artifact with after < seq <= atSeq, in order.
	ArtifactVersionsAfter(ctx context.Context, ns uint32, run, name string, after, atSeq uint64) ([]machine.ArtifactVersion, error)
	// MessageRows lists the rows of a state's conversation from `from` (inclusive) to next (exclusive).
	MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error)
}

// Reader reads the past of runs. It caches the segments of long artifacts and the variables of runs, because they never
// change. The size of the caches is bounded. Safe for concurrent use.
type Reader struct {
	store     Store
	segments  *segments
	variables *variables
}

// New returns a Reader of a store.
func New(store Store) *Reader {
	return &Reader{store: store, segments: newSegments(), variables: newVariables()}
}

// Forget removes the data of a run from the caches, for example after the run was deleted.
func (r *Reader) Forget(key machine.RunKey) {
	r.variables.forget(key)
	r.segments.forget(key)
}

// NotFoundError returns the error for a run that the store does not contain. If err says that the run was deleted, it is
// returned unchanged.
func NotFoundError(err error) error {
	if machine.IsDeleted(err) {
		return err
	}
	return NoRun()
}

// NoRun returns the error for a run that does not exist or that the caller may not see.
func NoRun() error {
	return &machine.Error{
		Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND", Field: "run_id", Message: "no such run, or not yours to see",
	}
}
