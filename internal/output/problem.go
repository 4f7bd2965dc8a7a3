package output

import (
	"errors"
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Exit codes of every command.
const (
	// ExitOK means success without a fault.
	ExitOK = 0
	// ExitFault means that a fault was found, or a request was refused.
	ExitFault = 1
	// ExitUsage means wrong usage, unreadable input, or a server that cannot be reached.
	ExitUsage = 2
)

// Exit is an error with an exit code. If it is Silent, the error was already reported.
type Exit struct {
	Code   int
	Err    error
	Silent bool
}

// Error returns the text of the cause. Without a cause, it names the exit code.
func (e *Exit) Error() string {
	if e.Err == nil {
		return "exit " + strconv.Itoa(e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// Usage marks an error as an error of usage, or of unreadable input.
func Usage(err error) error { return &Exit{Code: ExitUsage, Err: err} }

// Fault returns the error of a command that has found a fault and has already printed it.
func Fault() error { return &Exit{Code: ExitFault, Silent: true} }

// ExitCode returns the exit code for an error of a command.
func ExitCode(err error) int {
	var exit *Exit
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return ExitUsage
	}
	if s, ok := status.FromError(err); ok && s.Code() == codes.Unavailable && len(s.Details()) == 0 {
		return ExitUsage
	}
	return ExitFault
}

// Problem is the typed form of an error.
type Problem struct {
	// Code is the gRPC code's name, for example FAILED_PRECONDITION. Of an error without a gRPC status it is "USAGE" for errors of the
	// command line and unreadable input, and "UNKNOWN" for others.
	Code string `json:"code"`
	// Reason is a stable UPPER_SNAKE word; may be empty.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Field is the invalid request field. If the error names none, it is the field of the first violation. It may be empty.
	Field string `json:"field"`
	// Allowed are the values that the field accepts.
	Allowed []string `json:"allowed"`
	// Violations are the invalid fields or unmet preconditions that the error lists, each with its fault.
	Violations []Violation `json:"violations"`
	// Metadata is the other data of the error.
	Metadata map[string]string `json:"metadata"`
	// RetryAfterMS is the pause after which a retry may succeed, in milliseconds; 0 = do not retry automatically.
	RetryAfterMS int64 `json:"retry_after_ms"`
	// ConflictingRecord is the record that was committed first, if two callers tried to leave the same visit of a
	// state.
	ConflictingRecord any `json:"winner,omitempty"`
	// first is a text that describes ConflictingRecord.
	first string
}

// Violation is one invalid field.
type Violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// ProblemOf returns the typed form of an error: of a gRPC status with its details, or of any other error.
func ProblemOf(err error) Problem {
	p := Problem{Code: "UNKNOWN", Message: err.Error(), Allowed: []string{}, Violations: []Violation{}, Metadata: map[string]string{}}
	if ExitCode(err) == ExitUsage {
		p.Code = "USAGE"
	}
	var remote interface {
		error
		GRPCStatus() *status.Status
	}
	if !errors.As(err, &remote) {
		return p
	}
	s := remote.GRPCStatus()
	// The text that was wrapped around the error stays. The prefix of gRPC, "rpc error: code = ...", is removed.
	p.Code, p.Message = codeName(s.Code()), strings.Replace(err.Error(), remote.Error(), s.Message(), 1)
	for _, detail := range s.Details() {
		p.add(detail)
	}
	return p
}

// add adds one detail of a gRPC status to the problem.
func (p *Problem) add(detail any) {
	switch d := detail.(type) {
	case *errdetails.ErrorInfo:
		p.Reason, p.Field = d.GetReason(), d.GetMetadata()["field"]
		maps.Copy(p.Metadata, d.GetMetadata())
		if allowed := d.GetMetadata()["allowed"]; allowed != "" {
			p.Allowed = strings.Split(allowed, ", ")
		}
	case *errdetails.BadRequest:
		for _, v := range d.GetFieldViolations() {
			p.Violations = append(p.Violations, Violation{v.GetField(), v.GetDescription()})
		}
	case *errdetails.PreconditionFailure:
		for _, v := range d.GetViolations() {
			p.Violations = append(p.Violations, Violation{v.GetSubject(), v.GetDescription()})
		}
	case *pawlv1.Record:
		p.ConflictingRecord, p.first = Message(d), firstText(d)
	case *errdetails.RetryInfo:
		p.RetryAfterMS = d.GetRetryDelay().AsDuration().Milliseconds()
	}
	if p.Field == "" && len(p.Violations) > 0 {
		p.Field = p.Violations[0].Field
	}
}

// String returns the text of the problem for display.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Message)
	if p.Reason != "" && !strings.Contains(p.Message, p.Reason) {
		b.WriteString(" (" + p.Reason + ")")
	}
	if p.first != "" {
		b.WriteString("\n  first was: " + p.first)
	}
	for _, v := range p.Violations {
		if !strings.Contains(p.Message, v.Description) {
			b.WriteString("\n  " + v.Field + ": " + v.Description)
		}
	}
	if len(p.Allowed) > 0 && !strings.Contains(p.Message, p.Allowed[0]) {
		b.WriteString("\n  allowed: " + strings.Join(p.Allowed, ", "))
	}
	return b.String()
}

// firstText describes the decision that was made first, with its principal and time.
func firstText(r *pawlv1.Record) string {
	what := "another record"
	if t := r.GetTransition(); t != nil {
		what = t.GetEvent() + " → " + t.GetToState()
	}
	return what + " by " + r.GetPrincipal() + " at " + r.GetAt().AsTime().UTC().Format(time.RFC3339) + ", record " + strconv.FormatUint(r.GetSeq(), 10)
}

// codeName returns the name of a gRPC code in UPPER_SNAKE case, for example FAILED_PRECONDITION for
// FailedPrecondition.
func codeName(c codes.Code) string {
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && unicode.IsUpper(r) && c != codes.OK {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// IsReported reports whether the command has already reported its error.
func IsReported(err error) bool {
	var exit *Exit
	return errors.As(err, &exit) && exit.Silent
}
