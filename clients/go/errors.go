package pawl

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Error describes a failed call, as reported by the sidecar or the gRPC library.
// docs/reference/errors.md lists the codes and reasons.
type Error struct {
	Code codes.Code
	// Reason is the sidecar's reason, for example "RUN_TERMINAL". It is "" if the error has no
	// ErrorInfo.
	Reason string
	// Message names the field and the limit, and describes what to do next.
	Message string
	// Metadata holds limits and values by name.
	Metadata map[string]string
	// Violations are the invalid fields of the request.
	Violations []Violation
	// RetryAfter is the pause before a retry that the sidecar requests. It is 0 if the sidecar requests
	// none.
	RetryAfter time.Duration
	// ConflictingRecord is the record that was committed first, if the reason is SEQ_MISMATCH.
	// Otherwise it is nil.
	ConflictingRecord *pawlv1.Record

	status *status.Status
}

// Violation is one invalid field of a request.
type Violation struct{ Field, Description string }

func (e *Error) Error() string {
	return cmp.Or(e.Reason, e.Code.String()) + ": " + e.Message
}

// GRPCStatus returns the status of the call. [status.FromError] uses this method.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// ErrorOf returns the error of a call as an [*Error]. It returns nil for a nil error and for an error
// without a gRPC status.
func ErrorOf(err error) *Error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return nil
	}
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason, e.Metadata = d.GetReason(), d.GetMetadata()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case *pawlv1.Record:
			e.ConflictingRecord = d
		}
	}
	return e
}

// Advice describes how a caller should react to an error.
type Advice string

const (
	// Repeat means that the caller should send the same request with the same id again after a pause.
	Repeat Advice = "repeat"
	// Reconnect means that the caller should send the same request with the same id over a new stream.
	Reconnect Advice = "reconnect"
	// GiveUp means that the caller should not retry, because the same request gets the same answer.
	GiveUp Advice = "give up"
)

// These are special values for the reasons in a row of advices.
var (
	anyReason      = []string{"any"}
	noReason       = []string{"none"}
	withRetryAfter = []string{"waits"}
)

// advices is the table "What to do with an error" of docs/reference/errors.md. The first matching row
// applies. A test compares this table with the page. The clients in Python and TypeScript have the same
// table.
var advices = []struct {
	code    string
	reasons []string
	advice  Advice
}{
	{"ABORTED", []string{"WORKER_REPLACED", "CONSUMER_REPLACED"}, GiveUp},
	{"ABORTED", []string{"PACK_CONTENDED", "UPLOAD_CONTENDED", "SUBSCRIPTION_CONTENDED"}, Repeat},
	{"PERMISSION_DENIED", []string{"TURN_TOKEN_STALE"}, GiveUp},
	{"UNAUTHENTICATED", []string{"TOKEN_EXPIRED"}, Repeat},
	{"UNIMPLEMENTED", []string{"OPERATION_UNKNOWN"}, Repeat},
	{"UNAVAILABLE", anyReason, Reconnect},
	{"DEADLINE_EXCEEDED", anyReason, Repeat},
	{"CANCELLED", anyReason, Reconnect},
	{"UNKNOWN", noReason, Reconnect},
	{"INTERNAL", noReason, Reconnect},
	{"RESOURCE_EXHAUSTED", withRetryAfter, Repeat},
	{"any", anyReason, GiveUp},
}

// Advice returns how to react to the error.
func (e *Error) Advice() Advice {
	name := codeNames[e.Code]
	for _, row := range advices {
		if (row.code == "any" || row.code == name) && e.fits(row.reasons) {
			return row.advice
		}
	}
	return GiveUp
}

func (e *Error) fits(reasons []string) bool {
	switch reasons[0] {
	case "any":
		return true
	case "none":
		return e.Reason == ""
	case "waits":
		return e.RetryAfter > 0
	}
	return slices.Contains(reasons, e.Reason)
}

// codeNames are the documented names of the codes.
var codeNames = map[codes.Code]string{
	codes.Aborted: "ABORTED", codes.PermissionDenied: "PERMISSION_DENIED", codes.Unauthenticated: "UNAUTHENTICATED",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Unavailable: "UNAVAILABLE", codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
	codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.Internal: "INTERNAL", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
}
