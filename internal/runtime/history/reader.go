package history

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Store is what is read here. Errors are the store's own.
type Store interface {
	// Entries returns a run's entries that hold records >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the one entry that holds the record seq; [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Checkpoint returns the newest stored copy of a run's state whose seq is at most the
	// given one; nil: there is none, a replay begins at the first record.
	Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error)
	// ArtifactVersions lists the writes of one artifact with seq <= atSeq in order;
	// newestOnly returns at most the last.
	ArtifactVersions(ctx context.Context, ns uint32, run, name string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error)
	// ArtifactVersionsAfter lists those with after < seq <= atSeq in order.
	ArtifactVersionsAfter(ctx context.Context, ns uint32, run, name string, after, atSeq uint64) ([]machine.ArtifactVersion, error)
	// MessageRows lists rows [from, next) of a state's conversation.
	MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error)
}

// Reader reads what was. What it remembers are beginnings of long artifacts and what
// runs were started with, which never change, within bounds. Safe for concurrent use.
type Reader struct {
	store     Store
	segments  *segments
	variables *variables
}

// New makes a reader of a store.
func New(store Store) *Reader {
	return &Reader{store: store, segments: newSegments(), variables: newVariables()}
}

// Forget lets go of what is remembered of a run.
func (r *Reader) Forget(key machine.RunKey) {
	r.variables.forget(key)
	r.segments.forget(key)
}

// Absent is the refusal for a run that a store has not: that it was deleted, where the
// store says so.
func Absent(err error) error {
	if machine.IsDeleted(err) {
		return err
	}
	return NoRun()
}

// NoRun is the refusal for a run that is not there, or not the caller's to see.
func NoRun() error {
	return &machine.Error{
		Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND", Field: "run_id", Message: "no such run, or not yours to see",
	}
}
