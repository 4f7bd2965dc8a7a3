package apierror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// found is a detail of a status by its type.
func found[T proto.Message](st *status.Status) (detail T, ok bool) {
	for _, d := range st.Details() {
		if detail, ok = d.(T); ok {
			return detail, true
		}
	}
	return detail, false
}

// TestEveryCode walks all codes of the machine: each has its gRPC code of the
// same name, an ErrorInfo, and the detail that fits its class.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	for code := machine.CodeInvalidArgument; code <= machine.CodeDataLoss; code++ {
		want, ok := Codes[code]
		if !ok {
			t.Fatalf("code %d is not in the table", code)
		}
		if code == machine.CodeInternal {
			continue
		}
		st, fault := Status(fmt.Errorf("runtime: apply: %w", &machine.Error{
			Code: code, Reason: "SOME_REASON", Field: "run_id", Message: "words", Allowed: []string{"a", "b"},
			Limit: 3, Got: 4, Seq: 5, RetryAfter: int64(time.Second),
		}))
		if fault != nil || st.Code() != want {
			t.Fatalf("code %d: %v, fault %v", code, st, fault)
		}
		info, ok := found[*errdetails.ErrorInfo](st)
		if !ok || info.Domain != Domain || info.Reason != "SOME_REASON" {
			t.Fatalf("%v: ErrorInfo %v", want, info)
		}
		for key, value := range map[string]string{"field": "run_id", "allowed": "a, b", "limit": "3", "got": "4", "seq": "5"} {
			if info.Metadata[key] != value {
				t.Errorf("%v: metadata %q = %q", want, key, info.Metadata[key])
			}
		}
		for _, word := range []string{"SOME_REASON", "run_id", "words", "limit 3", "got 4", "allowed: a, b"} {
			if !strings.Contains(st.Message(), word) {
				t.Errorf("%v: no %q in %q", want, word, st.Message())
			}
		}
		if retry, ok := found[*errdetails.RetryInfo](st); !ok || retry.RetryDelay.AsDuration() != time.Second {
			t.Errorf("%v: RetryInfo %v", want, retry)
		}
		checkClassDetail(t, st)
	}
}

func checkClassDetail(t *testing.T, st *status.Status) {
	t.Helper()
	_, bad := found[*errdetails.BadRequest](st)
	_, pre := found[*errdetails.PreconditionFailure](st)
	_, res := found[*errdetails.ResourceInfo](st)
	code := st.Code()
	if want := slices.Contains([]codes.Code{codes.InvalidArgument, codes.OutOfRange, codes.ResourceExhausted}, code); bad != want {
		t.Errorf("%v: BadRequest %v", code, bad)
	}
	if want := slices.Contains([]codes.Code{codes.FailedPrecondition, codes.Aborted}, code); pre != want {
		t.Errorf("%v: PreconditionFailure %v", code, pre)
	}
	if want := slices.Contains([]codes.Code{codes.NotFound, codes.AlreadyExists}, code); res != want {
		t.Errorf("%v: ResourceInfo %v", code, res)
	}
}

func TestOtherErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err    error
		code   codes.Code
		reason string
	}{
		{context.Canceled, codes.Canceled, "CALL_ENDED"},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "CALL_ENDED"},
		{fmt.Errorf("store: %w", machine.ErrNoRun), codes.NotFound, "RUN_NOT_FOUND"},
		{machine.ErrNoRecord, codes.NotFound, "RECORD_NOT_FOUND"},
		{machine.ErrNoPack, codes.NotFound, "PACK_NOT_FOUND"},
		{fmt.Errorf("commit: %w: disk", machine.ErrIndeterminate), codes.Unavailable, "COMMIT_UNKNOWN"},
		{status.Error(codes.Unimplemented, "later"), codes.Unimplemented, ""},
	}
	for _, tt := range tests {
		st, fault := Status(tt.err)
		info, _ := found[*errdetails.ErrorInfo](st)
		if fault != nil || st.Code() != tt.code || info.GetReason() != tt.reason {
			t.Errorf("%v: %v %q, fault %v", tt.err, st, info.GetReason(), fault)
		}
		if strings.Contains(st.Message(), "disk") {
			t.Errorf("%v: leaks", st)
		}
	}
}

// TestUnknownErrorTellsNothing: the caller gets an id, the log the rest.
func TestUnknownErrorTellsNothing(t *testing.T) {
	t.Parallel()
	secret := errors.New("open /var/lib/pawl/000001.vlog: token o8Zc2mJ5")
	for _, err := range []error{secret, fmt.Errorf("x: %w", &machine.Error{Code: machine.CodeInternal, Reason: "BUG", Message: secret.Error()})} {
		st, fault := Status(err)
		info, _ := found[*errdetails.ErrorInfo](st)
		if st.Code() != codes.Internal || fault == nil || info.GetMetadata()["correlation_id"] != fault.ID || len(fault.ID) != 16 {
			t.Fatalf("%v, fault %v", st, fault)
		}
		if text := st.Proto().String(); strings.Contains(text, "vlog") || strings.Contains(text, "BUG") {
			t.Fatalf("leaks: %s", text)
		}
		if !errors.Is(fault, err) || !strings.Contains(fault.Error(), "vlog") {
			t.Fatalf("the log does not have it: %v", fault)
		}
	}
}

// TestErrorsStaySmall: clients on the C core drop calls with trailers over 8 KiB.
func TestErrorsStaySmall(t *testing.T) {
	t.Parallel()
	var allowed []string
	for i := range 10_000 {
		allowed = append(allowed, fmt.Sprintf("Event%d", i))
	}
	long := strings.Repeat("ä", 9_000)
	for code := range Codes {
		st := Refused(&machine.Error{Code: code, Reason: "R", Field: "f" + long, Message: "\xff" + long, Allowed: allowed})
		// The message travels twice: percent-encoded, and in base64 with the details.
		if n := proto.Size(st.Proto())*4/3 + 3*len(st.Message()); n > 8<<10 {
			t.Errorf("code %v: %d bytes", code, n)
		}
		if _, ok := found[*errdetails.ErrorInfo](st); !ok {
			t.Errorf("code %v lost its details", code)
		}
	}
}
