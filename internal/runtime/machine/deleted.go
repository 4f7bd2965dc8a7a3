package machine

import (
	"errors"
	"fmt"
	"time"
)

// Deleted is what remains of a deleted run: the fact, and the id that started it, so that the id stays used.
type Deleted struct {
	// RunID identifies the run; in the store it is in the row's key.
	RunID string
	// At is Unix nanoseconds. By is the principal that deleted the run, Why the retention rule that selected
	// it; "" = a caller did.
	At  int64
	By  string
	Why string
	// Status, Records and Hash are the run's final status, last record and chain hash.
	Status  Status
	Records uint64
	Hash    [32]byte
	// Commits is the number of entries of the run in the journal.
	Commits uint64
	// Starter used the id StartID with a command of StartKind; "" = the start had no id.
	Starter   string
	StartKind CommandKind
	StartID   string
}

// Start returns the id that started the run; false = it had none.
func (d *Deleted) Start() (Dedupe, bool) {
	return Dedupe{Scope: PerPrincipal, Kind: d.StartKind, Principal: d.Starter, ID: d.StartID}, d.StartID != ""
}

// reasonDeleted is the reason of every error about a deleted run.
const reasonDeleted = "RUN_DELETED"

// Err returns the error for a caller that asks for the run.
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
