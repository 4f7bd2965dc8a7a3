package machine

import "errors"

// The types in this file are shared by the engine and the store of its runs. They are in this package
// because both may import it, and neither may import the other.

// These are the errors of the store. They may be wrapped with more information.
var (
	// ErrSeqConflict means that the last seq of the run is not equal to Batch.Prev. The batch was not
	// stored.
	ErrSeqConflict = errors.New("run's last seq differs")
	// ErrEffectTaken means that another step has a business key of the batch. The batch was not stored.
	ErrEffectTaken = errors.New("business key is taken")
	// ErrConsumed means that an idempotency id of the batch is already used. The batch was not stored.
	ErrConsumed = errors.New("idempotency id is taken")
	// ErrIndeterminate means that it is unknown whether the commit happened.
	ErrIndeterminate = errors.New("commit outcome unknown")
	// ErrNoRun means that the namespace has no run with this id.
	ErrNoRun = errors.New("no such run")
	// ErrNoRecord means that the run has no record with this seq.
	ErrNoRecord = errors.New("no such record")
	// ErrNoStep means that the step is not pending, or not in this attempt.
	ErrNoStep = errors.New("no such pending step")
	// ErrNoPack means that no pack is registered under the reference.
	ErrNoPack = errors.New("no such pack")
)

// Committed is the position of a committed batch.
type Committed struct {
	// Cursor is the position of the entry in the order of all entries of its namespace. Positions count
	// from 1, without gaps.
	Cursor uint64
	// PrevHash and Hash are the values of the run's hash chain before and after the entry.
	PrevHash [32]byte
	Hash     [32]byte
}

// RunKey identifies a run in one store.
type RunKey struct {
	Namespace uint32
	ID        string
}

// Page bounds a read to at most Records entries and about Bytes bytes. If there is an entry, at least
// one is read. A zero field selects the default: 256 entries, 1 MiB.
type Page struct {
	Records int
	Bytes   int
}

// RunFilter selects runs for a list. The zero value selects all runs.
type RunFilter struct {
	// Pack selects the runs of a pack. It is the pack's id, id@version or digest.
	Pack string
	// Status selects runs in any of these statuses. If it is empty, runs in all statuses are selected.
	Status []Status
	// State selects runs whose current state has this name.
	State string
	// Labels selects runs that have all of these labels.
	Labels []Label
	// Parent selects the runs that were started by a delegation of the run with this id.
	Parent string
	// Reason selects runs by the reason of their end. It is the whole reason, or the part before a
	// colon.
	Reason string
	// CreatedFrom (inclusive) and CreatedBefore (exclusive) bound the start time of the runs, in Unix
	// nanoseconds. 0 means that there is no bound.
	CreatedFrom, CreatedBefore int64
	// IDPrefix selects runs whose id begins with this prefix.
	IDPrefix string
	// Oldest lists the oldest runs first. By default the newest runs come first.
	Oldest bool
}

// PackRow is one registered pack.
type PackRow struct {
	// Digest is "sha256:<64 hex>" of Canonical.
	Digest    string
	ID        string
	Version   string
	Canonical []byte
	// Source is the document in the form in which it was registered. It is needed for source positions.
	Source []byte
	// RegisteredAt is in Unix nanoseconds.
	RegisteredAt int64
	// Default means that the ID without a version refers to this version.
	Default bool
}

// PackPut is a request to register a pack under id@version.
type PackPut struct {
	Row PackRow
	// Move allows that an id@version that already exists is changed to refer to other bytes.
	Move bool
	// MakeDefault makes the id without a version refer to this version.
	MakeDefault bool
}
