package machine

import (
	"errors"
	"fmt"
	"time"
)

// Erased records that the values of a run were erased.
type Erased struct {
	// RunID identifies the run. In the store it is part of the row's key, not of its value.
	RunID string
	// At is the time of the erasure, in Unix nanoseconds. By is the principal that erased the values.
	// Why is the reason that By gave. If the key was destroyed before the rows were restored, only At
	// is known.
	At  int64
	By  string
	Why string
	// Key is the position of the run's encryption key.
	Key uint64
}

// reasonErased is the reason of every error about erased values.
const reasonErased = "RUN_ERASED"

// Err returns the error for a caller that requests values of the run.
func (e *Erased) Err() *Error {
	when := ""
	if e.At != 0 {
		when = " at " + time.Unix(0, e.At).UTC().Format(time.RFC3339)
	}
	return &Error{
		Code: CodeFailedPrecondition, Reason: reasonErased, Field: "run_id",
		Message: fmt.Sprintf("the values of the run %s were erased%s", e.RunID, when),
	}
}

// CheckNotErased returns an error if the values of the entry were erased.
func (e *Entry) CheckNotErased() error {
	if !e.Erased {
		return nil
	}
	erased := Erased{RunID: e.RunID}
	return erased.Err()
}

// CheckNotErased returns an error if the values of the run were erased.
func (s *State) CheckNotErased() error {
	if s == nil || s.Erased == nil {
		return nil
	}
	return s.Erased.Err()
}

// IsErased reports whether the error says that the values of a run were erased.
func IsErased(err error) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Reason == reasonErased
}
