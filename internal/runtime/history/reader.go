package history

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Store is the part of the store that a [Reader] uses. The errors of the store are returned unchanged.
type Store interface {
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the entry that contains the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Checkpoint returns the newest checkpoint of a run whose seq is not greater than the given seq. It
	// returns nil if there is no such checkpoint. Then a replay begins at the first record.
	Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error)
	// ArtifactVersions lists the writes of one artifact with seq <= atSeq, in order. If newestOnly is
	// true, it returns at most the last one.
	ArtifactVersions(ctx context.Context, ns uint32, run, name string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error)
	// ArtifactVersionsAfter lists the writes with after < seq <= atSeq in order.
	ArtifactVersionsAfter(ctx context.Context, ns uint32, run, name string, after, atSeq uint64) ([]machine.ArtifactVersion, error)
	// MessageRows lists the rows from `from` (inclusive) to next (exclusive) of a state's conversation.
	MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error)
}

// Reader reads the past of runs. It caches the segments of long artifacts and the variables of runs,
// which never change. The size of the caches is bounded. Safe for concurrent use.
type Reader struct {
	store     Store
	segments  *segments
	variables *variables
}

// New returns a Reader of a store.
func New(store Store) *Reader {
	return &Reader{store: store, segments: newSegments(), variables: newVariables()}
}

// Forget removes a run from the caches.
func (r *Reader) Forget(key machine.RunKey) {
	r.variables.forget(key)
	r.segments.forget(key)
}

// Absent returns the error for a run that the store does not contain. If the store knows that the run was deleted, the error says so.
func Absent(err error) error {
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
