package machine

import "errors"

// The types below are shared by the host and the store of its runs. They are here, and not beside the
// interface that uses them, because both sides may import this package and neither may import the other.

// Errors of the store. Wrapped with %w if more is known.
var (
	// ErrSeqConflict: the run's last seq is not Batch.Prev. The batch was not stored.
	ErrSeqConflict = errors.New("run's last seq differs")
	// ErrEffectTaken: a business key of the batch is another step's. The batch was not stored.
	ErrEffectTaken = errors.New("business key is taken")
	// ErrConsumed: an idempotency id of the batch is taken. The batch was not stored.
	ErrConsumed = errors.New("idempotency id is taken")
	// ErrIndeterminate: the commit may or may not have happened.
	ErrIndeterminate = errors.New("commit outcome unknown")
	// ErrNoRun: there is no run of that id in the namespace.
	ErrNoRun = errors.New("no such run")
	// ErrNoRecord: the run has no record of that seq.
	ErrNoRecord = errors.New("no such record")
	// ErrNoStep: the step is not pending, or not in that attempt.
	ErrNoStep = errors.New("no such pending step")
	// ErrNoPack: no pack is registered under the reference.
	ErrNoPack = errors.New("no such pack")
)

// Committed is the position of a committed batch.
type Committed struct {
	// Cursor is the entry's position in the order of its namespace, dense from 1.
	Cursor uint64
	// PrevHash and Hash are the run's chain before and after the entry.
	PrevHash [32]byte
	Hash     [32]byte
}

// RunKey identifies a run in one store.
type RunKey struct {
	Namespace uint32
	ID        string
}

// Page bounds a read: at most Records entries and about Bytes bytes, at least
// one entry if there is any. Zero fields mean the defaults of 256 entries and
// 1 MiB.
type Page struct {
	Records int
	Bytes   int
}

// RunFilter selects runs for a list; the zero value selects all.
type RunFilter struct {
	// Pack is an id, id@version or digest.
	Pack string
	// Status is a set: a run in any of them; empty = all.
	Status []Status
	// State is the current state.
	State string
	// Labels must all be on the run.
	Labels []Label
	// Parent is the id of the run that delegated.
	Parent string
	// Reason is the reason of the end, or its part before a colon.
	Reason string
	// CreatedFrom and CreatedBefore bound the start, Unix nanoseconds; 0 = open.
	CreatedFrom, CreatedBefore int64
	// IDPrefix is a prefix of the run's id.
	IDPrefix string
	// Oldest orders by creation, oldest first; the default is newest first.
	Oldest bool
}

// PackRow is one registered pack.
type PackRow struct {
	// Digest is "sha256:<64 hex>" of Canonical.
	Digest    string
	ID        string
	Version   string
	Canonical []byte
	// Source is the document as it was registered, for source positions.
	Source []byte
	// RegisteredAt is Unix nanoseconds.
	RegisteredAt int64
	// Default means that the bare ID refers to this version.
	Default bool
}

// PackPut is a request to register a pack under id@version.
type PackPut struct {
	Row PackRow
	// Move allows a taken id@version to point to other bytes.
	Move bool
	// MakeDefault makes the bare id refer to this version.
	MakeDefault bool
}
