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

// Error is what the sidecar, or the gRPC library, reported about a call. The codes and reasons
// are those of docs/reference/errors.md.
type Error struct {
	Code codes.Code
	// Reason is the sidecar's own word, such as "RUN_TERMINAL"; "" where the sidecar said nothing.
	Reason string
	// Message names the field, the limit and the next thing to do.
	Message string
	// Metadata has limits and values by name.
	Metadata map[string]string
	// Violations are the fields of the request that are wrong.
	Violations []Violation
	// RetryAfter is how long to wait before a repeat; 0: the sidecar did not say.
	RetryAfter time.Duration
	// ConflictingRecord is, with SEQ_MISMATCH, the record that came first; else nil.
	ConflictingRecord *pawlv1.Record

	status *status.Status
}

// Violation is one field that is wrong.
type Violation struct{ Field, Description string }

func (e *Error) Error() string {
	return cmp.Or(e.Reason, e.Code.String()) + ": " + e.Message
}

// GRPCStatus is the status of the call, for [status.FromError].
func (e *Error) GRPCStatus() *status.Status { return e.status }

// ErrorOf is the error of a call as an [*Error]; nil where err is nil or is no error of a call.
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

// Advice is what to do with an error.
type Advice string

const (
	// Repeat: the same request with the same id, a little later.
	Repeat Advice = "repeat"
	// Reconnect: the same over a new stream.
	Reconnect Advice = "reconnect"
	// GiveUp: the same request would meet the same answer.
	GiveUp Advice = "give up"
)

// Reasons of a row of advices, besides names.
var (
	anyReason      = []string{"any"}
	noReason       = []string{"none"}
	withRetryAfter = []string{"waits"}
)

// advices is the table "What to do with an error" of docs/reference/errors.md; the first row that fits
// holds. A test compares the two; the clients in Python and TypeScript have the same one.
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

// Advice is what to do with the error.
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

// codeNames are the names that documents have for codes.
var codeNames = map[codes.Code]string{
	codes.Aborted: "ABORTED", codes.PermissionDenied: "PERMISSION_DENIED", codes.Unauthenticated: "UNAUTHENTICATED",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Unavailable: "UNAVAILABLE", codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
	codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.Internal: "INTERNAL", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
}
