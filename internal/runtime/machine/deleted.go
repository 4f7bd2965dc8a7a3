package machine

import (
	"errors"
	"fmt"
	"time"
)

// Deleted is what is kept of a run that was deleted: that it was, and which id began it,
// so that the id stays used up.
type Deleted struct {
	// RunID names the run; in the store it is in the row's key.
	RunID string
	// At is Unix nanoseconds; By the principal that asked for it; Why the rule of
	// retention that chose it, "" = a caller did.
	At  int64
	By  string
	Why string
	// Status, Records and Hash are those of its end: the last record and the chain.
	Status  Status
	Records uint64
	Hash    [32]byte
	// Commits is how many places of the order of everything it had.
	Commits uint64
	// Starter used up the id StartID with a command of StartKind; "" = none was given.
	Starter   string
	StartKind CommandKind
	StartID   string
}

// Start is the id that the run was begun with; false: none was given.
func (d *Deleted) Start() (Dedupe, bool) {
	return Dedupe{Scope: PerPrincipal, Kind: d.StartKind, Principal: d.Starter, ID: d.StartID}, d.StartID != ""
}

// reasonDeleted is the reason of every refusal for a run that was deleted.
const reasonDeleted = "RUN_DELETED"

// Err is the answer to who asks for the run.
func (d *Deleted) Err() *Error {
	return &Error{
		Code: CodeNotFound, Reason: reasonDeleted, Field: "run_id",
		Message: fmt.Sprintf("the run %s was deleted at %s", d.RunID, time.Unix(0, d.At).UTC().Format(time.RFC3339)),
	}
}

// IsDeleted: the error is that a run was deleted.
func IsDeleted(err error) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Reason == reasonDeleted
}
