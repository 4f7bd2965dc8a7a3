package machine

import "errors"

// The types below are the vocabulary between the host and whatever keeps its
// runs. They stand here, and not beside the interface that uses them, because
// both sides may import this package and neither may import the other.

// Errors of whatever keeps the runs. Wrapped with %w where more is known.
var (
	// ErrSeqConflict: the run's last seq is not Batch.Prev. Nothing was stored.
	ErrSeqConflict = errors.New("run's last seq differs")
	// ErrEffectTaken: a business key of the batch is another step's. Nothing was stored.
	ErrEffectTaken = errors.New("business key is taken")
	// ErrConsumed: an idempotency id of the batch is taken. Nothing was stored.
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

// Committed says where a batch went.
type Committed struct {
	// Cursor is the entry's place in the order of its namespace, dense from 1.
	Cursor uint64
	// PrevHash and Hash are the run's chain before and after the entry.
	PrevHash [32]byte
	Hash     [32]byte
}

// RunKey names a run in one store.
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
	// State is the state visited now.
	State string
	// Labels must all be on the run.
	Labels []Label
	// Parent is the id of the run that delegated.
	Parent string
	// Reason of the end, or what stands before a colon in it.
	Reason string
	// CreatedFrom and CreatedBefore bound the start, Unix nanoseconds; 0 = open.
	CreatedFrom, CreatedBefore int64
	// IDPrefix is what the run's id begins with.
	IDPrefix string
	// Oldest orders by creation, oldest first; default newest first.
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
	// Default: bare ID means this version.
	Default bool
}

// PackPut asks to register a pack under id@version.
type PackPut struct {
	Row PackRow
	// Move lets a taken id@version point to other bytes.
	Move bool
	// MakeDefault lets the bare id mean this version.
	MakeDefault bool
}
