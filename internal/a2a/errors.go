package a2a

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants limit the texts in an error, because gRPC sends them in a trailer.
const (
	maxErrorText  = 768
	maxErrorValue = 512
)

// Error is an error that every protocol binding can send.
type Error struct {
	kind *kind
	// domain and reason are the fields of the ErrorInfo.
	domain, reason string
	message        string
	// field is the path of the wrong field in the request. It may be "".
	field string
	// retry is the time after which the caller may try again. 0 means that the error names no time.
	retry    time.Duration
	metadata map[string]string
}

// Error returns the reason and the message.
func (e *Error) Error() string { return e.reason + ": " + e.message }

// fail returns an error of a kind, with a formatted message and the domain of the A2A protocol. For an error that the
// protocol does not define, callers replace the domain or the reason.
func fail(k *kind, format string, args ...any) *Error {
	return &Error{kind: k, domain: Domain, reason: k.reason, message: fmt.Sprintf(format, args...)}
}

// failAt does the same as fail, and sets the field of the request.
func failAt(k *kind, field, format string, args ...any) *Error {
	e := fail(k, "%s: "+format, append([]any{field}, args...)...)
	e.field, e.metadata = field, map[string]string{"field": field}
	return e
}

// noTask returns the error for a task that does not exist. The error for a task of another caller is
// the same.
func noTask() *Error { return failAt(taskNotFound, "id", "no such task, or not yours to see") }

// reasonKinds maps the engine's reasons to errors that the protocol defines.
var reasonKinds = map[string]*kind{
	"RUN_NOT_FOUND":    taskNotFound,
	"RUN_DELETED":      taskNotFound,
	"RUN_ERASED":       taskNotFound,
	"RUN_TERMINAL":     unsupportedOperation,
	"INPUT_QUEUE_FULL": tooMany,
}

// codeKinds maps every code of the engine to a kind of error.
var codeKinds = map[machine.Code]*kind{
	machine.CodeInvalidArgument:    badValue,
	machine.CodeNotFound:           notFound,
	machine.CodeAlreadyExists:      alreadyExists,
	machine.CodePermissionDenied:   permissionDenied,
	machine.CodeFailedPrecondition: notNow,
	machine.CodeAborted:            aborted,
	machine.CodeOutOfRange:         outOfRange,
	machine.CodeResourceExhausted:  tooLarge,
	machine.CodeUnavailable:        unavailable,
	machine.CodeUnauthenticated:    unauthenticated,
}

// errorOf converts any error to an Error. If the caller must not see the cause, the Error contains only
// an id, and the second result is the error that must be logged.
func errorOf(err error) (*Error, error) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e, nil
	}
	if r, ok := errors.AsType[*machine.Error](err); ok && codeKinds[r.Code] != nil {
		return refused(r), nil
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fail(callerGone, "the caller gave up; the task goes on"), nil
	case errors.Is(err, context.DeadlineExceeded):
		return fail(deadlinePassed, "the caller's deadline passed; the task goes on"), nil
	case errors.Is(err, machine.ErrIndeterminate):
		e := fail(unavailable, "it is not known whether the commit happened; look for the task once the server is back")
		e.domain, e.reason = engineDomain, "COMMIT_UNKNOWN"
		return e, nil
	}
	if st, ok := status.FromError(err); ok && st.Code() != codes.Unknown {
		return ofStatus(st), nil
	}
	return hidden(err)
}

// refused converts an error of the engine.
func refused(r *machine.Error) *Error {
	e := &Error{
		kind: codeKinds[r.Code], domain: engineDomain, reason: r.Reason, field: r.Field,
		message: describe(r), retry: time.Duration(r.RetryAfter),
		// Some JSON-RPC clients keep only the reasons that the protocol defines and the metadata, so
		// the reason is also in the metadata.
		metadata: map[string]string{"reason": r.Reason},
	}
	if e.retry > 0 && e.kind == tooLarge {
		e.kind = tooMany
	}
	if k := reasonKinds[r.Reason]; k != nil {
		e.kind = k
		if k.reason != "" {
			e.domain, e.reason = Domain, k.reason
		}
	}
	for key, value := range map[string]string{
		"field": r.Field, "allowed": strings.Join(r.Allowed, ", "), "quota": r.Quota, "limit": number(r.Limit), "got": number(r.Got),
	} {
		if value != "" {
			e.metadata[key] = clip(value, maxErrorValue)
		}
	}
	return e
}

// describe returns the message for people. It contains the fault, the limit and the allowed values.
func describe(r *machine.Error) string {
	var b strings.Builder
	if r.Field != "" && !strings.HasPrefix(r.Message, r.Field) {
		b.WriteString(r.Field + ": ")
	}
	b.WriteString(r.Message)
	if r.Limit != 0 {
		fmt.Fprintf(&b, "; limit %d", r.Limit)
		if r.Got != 0 {
			fmt.Fprintf(&b, ", got %d", r.Got)
		}
	}
	if len(r.Allowed) > 0 {
		fmt.Fprintf(&b, "; allowed: %s", strings.Join(r.Allowed, ", "))
	}
	return b.String()
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// ofStatus converts an error with a gRPC status, for example one of the server from before the service was called.
func ofStatus(st *status.Status) *Error {
	k := &kind{"", serverError, st.Code(), httpOf[st.Code()]}
	if k.http == 0 {
		k = internalError
	}
	e := &Error{kind: k, domain: engineDomain, reason: "TRANSPORT", message: st.Message()}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			e.domain, e.reason, e.metadata = info.GetDomain(), info.GetReason(), info.GetMetadata()
		}
	}
	return e
}

var httpOf = map[codes.Code]int{
	codes.InvalidArgument: 400, codes.Unauthenticated: 401, codes.PermissionDenied: 403, codes.NotFound: 404,
	codes.ResourceExhausted: 429, codes.Unavailable: 503, codes.FailedPrecondition: 400, codes.Canceled: 499,
	codes.DeadlineExceeded: 504, codes.AlreadyExists: 409, codes.Aborted: 409, codes.OutOfRange: 400,
}

// hidden returns an error that contains only an id, and the error that must be logged under this id.
func hidden(cause error) (*Error, error) {
	var id [8]byte
	_, _ = rand.Read(id[:])
	word := hex.EncodeToString(id[:])
	e := fail(internalError, "internal error; the server's log has it under %s", word)
	e.domain, e.metadata = engineDomain, map[string]string{"correlation_id": word}
	return e, fmt.Errorf("correlation_id %s: %w", word, cause)
}

// details returns the google.rpc messages of an error.
func (e *Error) details() []proto.Message {
	out := []proto.Message{&errdetails.ErrorInfo{Domain: e.domain, Reason: e.reason, Metadata: e.metadata}}
	if e.field != "" && e.kind.code == codes.InvalidArgument {
		out = append(out, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: clip(e.field, maxErrorValue), Description: clip(e.message, maxErrorValue), Reason: e.reason},
		}})
	}
	if e.retry > 0 {
		out = append(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.retry)})
	}
	return out
}

// GRPCStatus returns the error as a gRPC status.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.kind.code, clip(e.message, maxErrorText))
	var details []protoadapt.MessageV1
	for _, d := range e.details() {
		details = append(details, protoadapt.MessageV1Of(d))
	}
	if full, err := st.WithDetails(details...); err == nil {
		return full
	}
	return st
}

// clip shortens a text to at most n bytes of valid UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}
