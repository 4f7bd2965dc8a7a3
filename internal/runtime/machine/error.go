package machine

import "fmt"

// Code is the class of an [Error]. The classes match the gRPC codes of the same names.
type Code uint8

const (
	CodeInvalidArgument Code = iota + 1
	CodeNotFound
	CodeAlreadyExists
	CodePermissionDenied
	CodeFailedPrecondition
	CodeAborted
	CodeOutOfRange
	CodeResourceExhausted
	CodeUnavailable
	CodeInternal
	CodeUnauthenticated
	CodeDataLoss
)

// Error is the typed error of the engine. An input that ends with an Error has made no change, except
// if the error is Result.Refused.
type Error struct {
	Code Code
	// Reason is a stable word in UPPER_SNAKE case, for example "UNKNOWN_EVENT".
	Reason string
	// Field is the path of the invalid request field, for example "artifacts[plan]".
	Field   string
	Message string
	// Allowed are the values that the field accepts.
	Allowed []string
	// Quota is the name of the exceeded quota of a namespace or principal, for example
	// "namespace.open_runs". It is "" if another limit was exceeded.
	Quota string
	// Limit and Got are set if a limit was exceeded. Got is the value that exceeded it.
	Limit, Got int64
	// Seq is the record that explains the error: the last transition if expected_seq did not match, the
	// last record if the run has ended, the decision if the step is already decided. 0 means none.
	Seq uint64
	// RetryAfter is the pause before a retry, in nanoseconds. 0 means that the caller should not retry
	// automatically.
	RetryAfter int64
}

// Error returns a text of the form "UNKNOWN_EVENT (event): ...".
func (r *Error) Error() string {
	if r.Field == "" {
		return fmt.Sprintf("%s: %s", r.Reason, r.Message)
	}
	return fmt.Sprintf("%s (%s): %s", r.Reason, r.Field, r.Message)
}
