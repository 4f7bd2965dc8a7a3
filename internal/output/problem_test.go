package output

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func refused(t *testing.T) error {
	t.Helper()
	s, err := status.New(codes.FailedPrecondition, "UNKNOWN_EVENT (event): no").WithDetails(
		&errdetails.ErrorInfo{Domain: "pawl.dev", Reason: "UNKNOWN_EVENT", Metadata: map[string]string{"field": "event", "allowed": "A, B"}},
		&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{Subject: "event", Description: "no"}}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)},
	)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func TestProblemOfStatus(t *testing.T) {
	t.Parallel()
	p := ProblemOf(fmt.Errorf("emit: %w", refused(t)))
	if p.Code != "FAILED_PRECONDITION" || p.Reason != "UNKNOWN_EVENT" || p.Field != "event" || p.RetryAfterMS != 2000 {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(p.Allowed, []string{"A", "B"}) || len(p.Violations) != 1 {
		t.Errorf("%+v", p)
	}
	if !strings.HasPrefix(p.Message, "emit: ") || strings.Contains(p.Message, "rpc error") {
		t.Errorf("message %q", p.Message)
	}
	if text := p.String(); !strings.Contains(text, "allowed: A, B") {
		t.Errorf("%q does not name the allowed values", text)
	}
}

// TestProblemOfBadRequest: if the error names no other field, the field at fault is the one of the first
// violation. The text has each violation, unless the message already has it.
func TestProblemOfBadRequest(t *testing.T) {
	t.Parallel()
	s, err := status.New(codes.InvalidArgument, "the request is malformed").WithDetails(
		&errdetails.ErrorInfo{Reason: "MALFORMED"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "run_id", Description: "is empty"}, {Field: "event", Description: "is too long"},
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	p := ProblemOf(s.Err())
	if p.Field != "run_id" || len(p.Violations) != 2 || p.Violations[1] != (Violation{"event", "is too long"}) {
		t.Errorf("%+v", p)
	}
	want := "the request is malformed (MALFORMED)\n  run_id: is empty\n  event: is too long"
	if p.String() != want {
		t.Errorf("told %q, want %q", p, want)
	}
}

func TestExitTellsItsCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such file")
	if err := Usage(cause); err.Error() != "no such file" || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if text := Fault().Error(); text != "exit 1" {
		t.Errorf("a fault without a cause is %q", text)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	_, notExist := os.Open("/does/not/exist")
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"nothing":          {nil, ExitOK},
		"refused":          {refused(t), ExitFault},
		"no server":        {status.Error(codes.Unavailable, "connection refused"), ExitUsage},
		"not found":        {status.Error(codes.NotFound, "x"), ExitFault},
		"usage":            {Usage(errors.New("x")), ExitUsage},
		"wrapped usage":    {fmt.Errorf("a: %w", Usage(errors.New("x"))), ExitUsage},
		"unreadable":       {notExist, ExitUsage},
		"any other":        {errors.New("x"), ExitFault},
		"found and told":   {Fault(), ExitFault},
		"joined with more": {errors.Join(errors.New("x"), Fault()), ExitFault},
	} {
		if got := ExitCode(tc.err); got != tc.want {
			t.Errorf("%s: exit code %d, want %d", name, got, tc.want)
		}
	}
	if !IsReported(Fault()) || IsReported(Usage(errors.New("x"))) {
		t.Error("only a fault that was told is silent")
	}
}

func TestFailWritesJSONOrText(t *testing.T) {
	t.Parallel()
	var out, text bytes.Buffer
	p := &Printer{Out: &out, Err: &text, JSON: true}
	p.Fail(refused(t))
	if !strings.HasPrefix(out.String(), "{\n  \"error\": {\n    \"code\": \"FAILED_PRECONDITION\"") || text.Len() != 0 {
		t.Errorf("out %q, err %q", out.String(), text.String())
	}
	out.Reset()
	p.JSON = false
	p.Fail(Usage(errors.New("what")))
	if out.Len() != 0 || text.String() != "error: what\n" {
		t.Errorf("out %q, err %q", out.String(), text.String())
	}
}

func TestCodeNames(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]string{
		codes.OK: "OK", codes.NotFound: "NOT_FOUND", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
		codes.Internal: "INTERNAL", codes.DataLoss: "DATA_LOSS",
	} {
		if got := codeName(code); got != want {
			t.Errorf("%v is %s, want %s", code, got, want)
		}
	}
}
