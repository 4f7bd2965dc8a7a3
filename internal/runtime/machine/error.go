package machine

import "fmt"

// Code classes of a Refusal; they match the gRPC codes of the same names.
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

// Error is the one typed error of the engine: an input that changed nothing
// (except where Result.Refused says otherwise).
type Error struct {
	Code Code
	// Reason is a stable UPPER_SNAKE word, for example "UNKNOWN_EVENT".
	Reason string
	// Field is the path of the request field at fault, for example "artifacts[plan]".
	Field   string
	Message string
	// Allowed are the values that would have been taken.
	Allowed []string
	// Quota names the bound where it is that of one namespace or principal, for example
	// "namespace.open_runs".
	Quota string
	// Limit and Got are set where a bound was passed.
	Limit, Got int64
	// Seq of the record that won (Aborted on expected_seq), else 0.
	Seq uint64
	// RetryAfter in nanoseconds; 0 = do not retry by itself.
	RetryAfter int64
}

// Error reads "UNKNOWN_EVENT event: ...".
func (r *Error) Error() string {
	if r.Field == "" {
		return fmt.Sprintf("%s: %s", r.Reason, r.Message)
	}
	return fmt.Sprintf("%s (%s): %s", r.Reason, r.Field, r.Message)
}
