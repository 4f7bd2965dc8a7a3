package machine

import (
	"errors"
	"fmt"
	"time"
)

// Erased is that the values of a run were erased.
type Erased struct {
	// RunID names the run; in the store it is in the row's key.
	RunID string
	// At is Unix nanoseconds; By the principal that asked for it, and Why its reason. Only At
	// is known where the key was destroyed before the rows were restored.
	At  int64
	By  string
	Why string
	// Key is where the key was kept.
	Key uint64
}

// reasonErased is the reason of every refusal of values that were erased.
const reasonErased = "RUN_ERASED"

// Err is the answer to who asks for values of the run.
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

// CheckNotErased refuses an entry whose values were erased to who asks for them.
func (e *Entry) CheckNotErased() error {
	if !e.Erased {
		return nil
	}
	erased := Erased{RunID: e.RunID}
	return erased.Err()
}

// CheckNotErased refuses a state whose values were erased to who asks for them.
func (s *State) CheckNotErased() error {
	if s == nil || s.Erased == nil {
		return nil
	}
	return s.Erased.Err()
}

// IsErased: the error is that the values of a run were erased.
func IsErased(err error) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Reason == reasonErased
}
