package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestErrorTable holds every error against the protocol's table, as it leaves on
// each binding.
func TestErrorTable(t *testing.T) {
	t.Parallel()
	s := &Service{}
	refusal := func(code machine.Code, reason string) error {
		return &machine.Error{Code: code, Reason: reason, Message: "m"}
	}
	for _, c := range []struct {
		err    error
		reason string
		domain string
		rpc    int
		code   codes.Code
		http   int
		status string
	}{
		// S§5.4.
		{fail(taskNotFound, "x"), "TASK_NOT_FOUND", Domain, -32001, codes.NotFound, 404, "NOT_FOUND"},
		{fail(taskNotCancelable, "x"), "TASK_NOT_CANCELABLE", Domain, -32002, codes.FailedPrecondition, 400, "FAILED_PRECONDITION"},
		{fail(pushNotSupported, "x"), "PUSH_NOTIFICATION_NOT_SUPPORTED", Domain, -32003, codes.FailedPrecondition, 400, "FAILED_PRECONDITION"},
		{fail(unsupportedOperation, "x"), "UNSUPPORTED_OPERATION", Domain, -32004, codes.FailedPrecondition, 400, "FAILED_PRECONDITION"},
		{fail(contentType, "x"), "CONTENT_TYPE_NOT_SUPPORTED", Domain, -32005, codes.InvalidArgument, 400, "INVALID_ARGUMENT"},
		{fail(extensionRequired, "x"), "EXTENSION_SUPPORT_REQUIRED", Domain, -32008, codes.FailedPrecondition, 400, "FAILED_PRECONDITION"},
		{fail(versionNotSupported, "x"), "VERSION_NOT_SUPPORTED", Domain, -32009, codes.FailedPrecondition, 400, "FAILED_PRECONDITION"},
		// JSON-RPC's own.
		{fail(parseError, "x"), "PARSE_ERROR", Domain, -32700, codes.InvalidArgument, 400, "INVALID_ARGUMENT"},
		{fail(invalidRequest, "x"), "INVALID_REQUEST", Domain, -32600, codes.InvalidArgument, 400, "INVALID_ARGUMENT"},
		{fail(methodNotFound, "x"), "METHOD_NOT_FOUND", Domain, -32601, codes.Unimplemented, 404, "UNIMPLEMENTED"},
		{failAt(invalidParams, "f", "x"), "INVALID_PARAMS", Domain, -32602, codes.InvalidArgument, 400, "INVALID_ARGUMENT"},
		// The engine's.
		{refusal(machine.CodeNotFound, "RUN_NOT_FOUND"), "TASK_NOT_FOUND", Domain, -32001, codes.NotFound, 404, "NOT_FOUND"},
		{refusal(machine.CodeNotFound, "RUN_DELETED"), "TASK_NOT_FOUND", Domain, -32001, codes.NotFound, 404, "NOT_FOUND"},
		{refusal(machine.CodeFailedPrecondition, "RUN_TERMINAL"), "UNSUPPORTED_OPERATION", Domain, -32004, codes.FailedPrecondition, 400, "FAILED_PRECONDITION"},
		{refusal(machine.CodeInvalidArgument, "BAD_VARIABLES"), "BAD_VARIABLES", engineDomain, -32602, codes.InvalidArgument, 400, "INVALID_ARGUMENT"},
		{refusal(machine.CodeNotFound, "PACK_NOT_FOUND"), "PACK_NOT_FOUND", engineDomain, -32602, codes.NotFound, 404, "NOT_FOUND"},
		{refusal(machine.CodeAlreadyExists, "X"), "X", engineDomain, -32602, codes.AlreadyExists, 409, "ALREADY_EXISTS"},
		{refusal(machine.CodePermissionDenied, "SCOPE_MISSING"), "SCOPE_MISSING", engineDomain, -32000, codes.PermissionDenied, 403, "PERMISSION_DENIED"},
		{refusal(machine.CodeFailedPrecondition, "PAUSED"), "PAUSED", engineDomain, -32004, codes.FailedPrecondition, 400, "FAILED_PRECONDITION"},
		{refusal(machine.CodeAborted, "X"), "X", engineDomain, -32000, codes.Aborted, 409, "ABORTED"},
		{refusal(machine.CodeOutOfRange, "X"), "X", engineDomain, -32602, codes.OutOfRange, 400, "OUT_OF_RANGE"},
		{refusal(machine.CodeResourceExhausted, "MESSAGES_TOO_LARGE"), "MESSAGES_TOO_LARGE", engineDomain, -32000, codes.ResourceExhausted, 413, "RESOURCE_EXHAUSTED"},
		{&machine.Error{Code: machine.CodeResourceExhausted, Reason: "RATE_LIMITED", RetryAfter: 1e9}, "RATE_LIMITED", engineDomain, -32000, codes.ResourceExhausted, 429, "RESOURCE_EXHAUSTED"},
		{refusal(machine.CodeResourceExhausted, "INPUT_QUEUE_FULL"), "INPUT_QUEUE_FULL", engineDomain, -32000, codes.ResourceExhausted, 429, "RESOURCE_EXHAUSTED"},
		{refusal(machine.CodeUnavailable, "DRAINING"), "DRAINING", engineDomain, -32000, codes.Unavailable, 503, "UNAVAILABLE"},
		{refusal(machine.CodeUnauthenticated, "TOKEN_MISSING"), "TOKEN_MISSING", engineDomain, -32000, codes.Unauthenticated, 401, "UNAUTHENTICATED"},
		{fmt.Errorf("x: %w", machine.ErrIndeterminate), "COMMIT_UNKNOWN", engineDomain, -32000, codes.Unavailable, 503, "UNAVAILABLE"},
		{context.Canceled, "CALL_ENDED", Domain, -32000, codes.Canceled, 499, "CANCELLED"},
		{context.DeadlineExceeded, "CALL_ENDED", Domain, -32000, codes.DeadlineExceeded, 504, "DEADLINE_EXCEEDED"},
	} {
		e, hidden := errorOf(c.err)
		if hidden != nil {
			t.Errorf("%s: %v is kept back", c.reason, hidden)
		}
		st := e.GRPCStatus()
		info, ok := st.Details()[0].(*errdetails.ErrorInfo)
		if !ok || st.Code() != c.code || info.GetReason() != c.reason || info.GetDomain() != c.domain {
			t.Errorf("gRPC: %v %v, want %v %s %s", st, info, c.code, c.domain, c.reason)
		}
		r := httptest.NewRequest(http.MethodPost, "/x", http.NoBody)
		var rpc rpcResponse
		if err := json.Unmarshal(s.rpcProblem(r, nil, c.err), &rpc); err != nil || rpc.Error.Code != c.rpc || !names(rpc.Error.Data, c.domain, c.reason) {
			t.Errorf("JSON-RPC: %+v (%v), want %d %s", rpc.Error, err, c.rpc, c.reason)
		}
		w := httptest.NewRecorder()
		s.writeError(w, r, c.err)
		var body struct{ Error statusError }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != c.http || body.Error.Code != c.http || body.Error.Status != c.status || !names(body.Error.Details, c.domain, c.reason) {
			t.Errorf("HTTP: %d %s (%v), want %d %s %s", w.Code, w.Body, err, c.http, c.status, c.reason)
		}
	}
}

func names(details []json.RawMessage, domain, reason string) bool {
	return len(details) > 0 && bytes.Contains(details[0], []byte(`"reason":"`+reason+`"`)) && bytes.Contains(details[0], []byte(`"domain":"`+domain+`"`)) &&
		bytes.Contains(details[0], []byte("type.googleapis.com/google.rpc.ErrorInfo"))
}

// TestHiddenError: the caller learns an id and nothing else.
func TestHiddenError(t *testing.T) {
	t.Parallel()
	e, hidden := errorOf(errors.New("the password is swordfish"))
	if hidden == nil || bytes.Contains([]byte(e.Error()), []byte("swordfish")) || e.kind.http != 500 || e.metadata["correlation_id"] == "" {
		t.Errorf("%v, %v", e, hidden)
	}
}

// singleCallerHost is a host of one caller.
type singleCallerHost struct{ Host }

func (singleCallerHost) Principal(context.Context) runtime.Principal { return runtime.Anonymous() }

// TestWithoutPush: a service that sends none says so to all four operations.
func TestWithoutPush(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Engine: struct{ Engine }{}, LenientVersion: true}, singleCallerHost{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, create := s.createPush(ctx, &a2apb.TaskPushNotificationConfig{})
	_, get := s.getPush(ctx, &a2apb.GetTaskPushNotificationConfigRequest{})
	_, list := s.listPush(ctx, &a2apb.ListTaskPushNotificationConfigsRequest{})
	_, drop := s.deletePush(ctx, &a2apb.DeleteTaskPushNotificationConfigRequest{})
	for i, err := range []error{create, get, list, drop} {
		if e, ok := errors.AsType[*Error](err); !ok || e.kind != pushNotSupported {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	if _, err := New(Config{}, singleCallerHost{}); err == nil {
		t.Error("a service without an engine")
	}
	if _, err := New(Config{Engine: struct{ Engine }{}, RequiredExtensions: []string{"x"}}, singleCallerHost{}); err == nil {
		t.Error("an extension that nobody has is required")
	}
}
