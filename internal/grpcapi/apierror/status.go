package apierror

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
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Domain is the domain of every google.rpc.ErrorInfo of this server.
const Domain = "pawl.dev"

// OwnerLost is the reason of the error with which a stream ends when another node has taken over the store. Package
// grpcapi also uses it for a stream whose reader is stuck. The router treats it as a failure of the store's owner, so
// that the next owner can continue the stream.
const OwnerLost = "OWNER_LOST"

// CommitUnknown is the reason of a call with an unknown outcome. The call may have taken effect.
const CommitUnknown = "COMMIT_UNKNOWN"

// These are the reasons of errors that do not come from the engine.
const (
	// CallEnded means that the context of the call ended before its answer.
	CallEnded = "CALL_ENDED"
	// MethodUnknown means that the server does not have the method.
	MethodUnknown = "METHOD_UNKNOWN"
	// RequestTooLarge means that a message has more bytes than the server accepts.
	RequestTooLarge = "REQUEST_TOO_LARGE"
)

// These constants limit the details of an error. gRPC sends the details in a trailer, and clients that
// use the C core drop a call whose trailers exceed 8 KiB.
const (
	maxMessageBytes     = 768
	MaxDescriptionBytes = 512
	MaxFieldBytes       = 256
	maxAllowed          = 24
)

// Codes maps the engine's error codes to gRPC codes. It is the only place that does so.
var Codes = map[machine.Code]codes.Code{
	machine.CodeInvalidArgument:    codes.InvalidArgument,
	machine.CodeNotFound:           codes.NotFound,
	machine.CodeAlreadyExists:      codes.AlreadyExists,
	machine.CodePermissionDenied:   codes.PermissionDenied,
	machine.CodeFailedPrecondition: codes.FailedPrecondition,
	machine.CodeAborted:            codes.Aborted,
	machine.CodeOutOfRange:         codes.OutOfRange,
	machine.CodeResourceExhausted:  codes.ResourceExhausted,
	machine.CodeUnavailable:        codes.Unavailable,
	machine.CodeInternal:           codes.Internal,
	machine.CodeUnauthenticated:    codes.Unauthenticated,
	machine.CodeDataLoss:           codes.DataLoss,
}

// sentinels maps plain errors of the store to the typed errors that callers get.
var sentinels = []struct {
	err     error
	refusal machine.Error
}{
	{machine.ErrNoRun, machine.Error{Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND", Field: "run_id", Message: "no such run, or not yours to see"}},
	{machine.ErrNoRecord, machine.Error{Code: machine.CodeNotFound, Reason: "RECORD_NOT_FOUND", Field: "seq", Message: "the run has no record of that seq"}},
	{machine.ErrNoPack, machine.Error{Code: machine.CodeNotFound, Reason: "PACK_NOT_FOUND", Field: "pack", Message: "no pack is registered under that reference"}},
	{machine.ErrIndeterminate, machine.Error{Code: machine.CodeUnavailable, Reason: CommitUnknown, Message: "it is not known whether the commit happened; repeat the request with the same id once the server is back"}},
}

// Withheld is an error that the caller must not see. The caller gets only an id. The log contains the error under
// this id.
type Withheld struct {
	ID    string
	Cause error
}

func (f *Withheld) Error() string { return "internal error " + f.ID + ": " + f.Cause.Error() }
func (f *Withheld) Unwrap() error { return f.Cause }

// Withhold returns an error that hides cause and has a new id.
func Withhold(cause error) *Withheld {
	var id [8]byte
	_, _ = rand.Read(id[:])
	return &Withheld{ID: hex.EncodeToString(id[:]), Cause: cause}
}

// Status converts any error to the status that the caller receives. If the second result is not nil,
// the status contains only an id, and the code that called Status must log the Withheld.
func Status(err error) (*status.Status, *Withheld) {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		if refusal.Code != machine.CodeInternal {
			return Refused(refusal), nil
		}
		return Hidden(Withhold(err))
	}
	switch {
	case errors.Is(err, context.Canceled):
		return ended(codes.Canceled, "the caller gave up"), nil
	case errors.Is(err, context.DeadlineExceeded):
		return ended(codes.DeadlineExceeded, "the caller's deadline passed; what was asked may have happened, or may still: repeat it with the same id"), nil
	}
	for i := range sentinels {
		if errors.Is(err, sentinels[i].err) {
			return Refused(&sentinels[i].refusal), nil
		}
	}
	if st, ok := status.FromError(err); ok {
		return violationStatus(st), nil
	}
	return Hidden(Withhold(err))
}

// ended returns the status of a call whose context ended before its answer.
func ended(code codes.Code, text string) *status.Status {
	return With(status.New(code, text), &errdetails.ErrorInfo{Domain: Domain, Reason: CallEnded})
}

// Unknown returns the status of a call if the server does not have the called method.
func Unknown(method string) *status.Status {
	return With(status.New(codes.Unimplemented, MethodUnknown+": no service of this server has the method "+Clip(method, MaxFieldBytes)+"; compare the versions of client and server"),
		&errdetails.ErrorInfo{Domain: Domain, Reason: MethodUnknown, Metadata: map[string]string{"operation": Clip(method, MaxFieldBytes)}})
}

// Hidden returns the status for a withheld error. It is INTERNAL and contains the id.
func Hidden(f *Withheld) (*status.Status, *Withheld) {
	st := status.New(codes.Internal, "internal error; the server's log has it under "+f.ID)
	return With(st, &errdetails.ErrorInfo{
		Domain: Domain, Reason: "INTERNAL", Metadata: map[string]string{"correlation_id": f.ID},
	}), f
}

// Refused converts a typed error to a status. It cannot fail.
func Refused(r *machine.Error) *status.Status {
	code, ok := Codes[r.Code]
	if !ok {
		code = codes.Unknown
	}
	text, field := describe(r), Clip(r.Field, MaxFieldBytes)
	details := []protoadapt.MessageV1{errorInfo(r)}
	switch code {
	case codes.InvalidArgument, codes.OutOfRange, codes.ResourceExhausted:
		if r.Field != "" {
			details = append(details, badRequest(field, text, r.Reason))
		}
	case codes.FailedPrecondition, codes.Aborted:
		details = append(details, &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
			{Type: r.Reason, Subject: field, Description: Clip(text, MaxDescriptionBytes)},
		}})
	case codes.NotFound, codes.AlreadyExists:
		details = append(details, &errdetails.ResourceInfo{
			ResourceType: strings.TrimSuffix(field, "_id"), Description: Clip(text, MaxDescriptionBytes),
		})
	}
	if r.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(r.RetryAfter))})
	}
	return With(status.New(code, Clip(text, maxMessageBytes)), details...)
}

// describe returns the message for people. It contains the reason, the field, the limit and the allowed
// values.
func describe(r *machine.Error) string {
	var b strings.Builder
	b.WriteString(r.Error())
	if r.Quota != "" {
		b.WriteString("; quota " + r.Quota)
	}
	if r.Limit != 0 {
		fmt.Fprintf(&b, "; limit %d", r.Limit)
		if r.Got != 0 {
			fmt.Fprintf(&b, ", got %d", r.Got)
		}
	}
	if len(r.Allowed) > 0 {
		fmt.Fprintf(&b, "; allowed: %s", joinAllowed(r.Allowed))
	}
	return b.String()
}

// errorInfo returns the same information as describe in a form for programs.
func errorInfo(r *machine.Error) *errdetails.ErrorInfo {
	info := &errdetails.ErrorInfo{Domain: Domain, Reason: r.Reason, Metadata: map[string]string{}}
	put := func(key, value string) {
		if value != "" {
			info.Metadata[key] = Clip(value, MaxDescriptionBytes)
		}
	}
	put("field", r.Field)
	put("allowed", joinAllowed(r.Allowed))
	put("quota", r.Quota)
	put("limit", number(r.Limit))
	put("got", number(r.Got))
	put("seq", number(int64(r.Seq)))
	return info
}

func badRequest(field, description, reason string) *errdetails.BadRequest {
	return &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: field, Description: Clip(description, MaxDescriptionBytes), Reason: reason},
	}}
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// joinAllowed returns a text with the first allowed values, and with the number of the values that it leaves out.
func joinAllowed(allowed []string) string {
	if more := len(allowed) - maxAllowed; more > 0 {
		return strings.Join(allowed[:maxAllowed], ", ") + fmt.Sprintf(", and %d more", more)
	}
	return strings.Join(allowed, ", ")
}

// Clip shortens a text to at most n bytes of valid UTF-8.
func Clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}

// With adds details to a status. If the details cannot be encoded, which does not happen for messages of this
// process, it returns the status without them.
func With(st *status.Status, details ...protoadapt.MessageV1) *status.Status {
	if full, err := st.WithDetails(details...); err == nil {
		return full
	}
	return st
}
