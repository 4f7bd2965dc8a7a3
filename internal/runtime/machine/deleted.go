package machine

import (
	"errors"
	"fmt"
	"time"
)

// Deleted is what the store keeps of a deleted run: the time, the principal and the reason of the
// deletion, and the id that started the run. The id is kept so that it cannot be used again.
type Deleted struct {
	// RunID identifies the run. In the store it is part of the row's key, not of its value.
	RunID string
	// At is the time of the deletion, in Unix nanoseconds. By is the principal that deleted the run.
	// Why is the retention rule that selected the run. Why is "" if a caller deleted the run.
	At  int64
	By  string
	Why string
	// Status, Records and Hash are the final status of the run, the number of its last record, and its last chain hash.
	Status  Status
	Records uint64
	Hash    [32]byte
	// Commits is the number of entries of the run in the journal.
	Commits uint64
	// Starter is the principal that started the run with the id StartID and a command of the kind
	// StartKind. It is "" if the start had no id.
	Starter   string
	StartKind CommandKind
	StartID   string
}

// Start returns the row of the id that started the run. It returns false if the start had no id.
func (d *Deleted) Start() (Dedupe, bool) {
	return Dedupe{Scope: PerPrincipal, Kind: d.StartKind, Principal: d.Starter, ID: d.StartID}, d.StartID != ""
}

// reasonDeleted is the reason of every error about a deleted run.
const reasonDeleted = "RUN_DELETED"

// Err returns the error for a caller that requests the run.
func (d *Deleted) Err() *Error {
	return &Error{
		Code: CodeNotFound, Reason: reasonDeleted, Field: "run_id",
		Message: fmt.Sprintf("the run %s was deleted at %s", d.RunID, time.Unix(0, d.At).UTC().Format(time.RFC3339)),
	}
}

// IsDeleted reports whether the error says that a run was deleted.
func IsDeleted(err error) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Reason == reasonDeleted
}
