package auditlog

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/inprocess"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants limit the lines about unauthenticated callers: the size of a burst, and the rate per
// second. If lines were omitted, the next line contains their number.
const (
	unknownBurst  = 500
	unknownPerSec = 50
)

// maxTextBytes limits each text that is copied from a request to a line, in bytes.
const maxTextBytes = 256

// Logger writes audit lines. A nil Logger writes none. Safe for concurrent use.
type Logger struct {
	log        *audit.Log
	operations map[string]runtime.Operation
	unknown    *rate.Limiter
	left       atomic.Int64
}

// New returns a Logger that writes to log. operations are the known operations by name. If log is nil,
// New returns nil.
func New(log *audit.Log, operations map[string]runtime.Operation) *Logger {
	if log == nil {
		return nil
	}
	return &Logger{log: log, operations: operations, unknown: rate.NewLimiter(unknownPerSec, unknownBurst)}
}

// Admit returns an error if a call changes state and the audit log cannot be written.
func (t *Logger) Admit(method string) error {
	if t == nil || !t.operations[method].Changes || t.log.Ready() == nil {
		return nil
	}
	return unavailable()
}

func unavailable() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: "AUDIT_UNAVAILABLE", RetryAfter: int64(time.Second),
		Message: "the audit cannot be written, and nothing is changed without it",
	}
}

// Unary is the interceptor for unary calls. It runs before authentication, so that it also sees refused
// callers. The interceptor that converts errors also converts its errors.
func (t *Logger) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	if err := t.Admit(info.FullMethod); err != nil {
		return nil, err
	}
	ctx, ref := auth.WithCallerRef(ctx)
	ended := false
	defer func() {
		if !ended {
			_ = t.add(ctx, info.FullMethod, ref.Caller, about(req), rpccode.Code_INTERNAL.String(), "PANIC")
		}
	}()
	resp, err = next(ctx, req)
	ended = true
	what := about(req)
	if what.resource == "" && err == nil && t.operations[info.FullMethod].Changes {
		what.resource = made(info.FullMethod, resp)
	}
	t.note(ctx, info.FullMethod, ref.Caller, what, err)
	return resp, err
}

// made returns the name of the resource that the call created, according to its answer. It returns ""
// if there is none.
func made(method string, resp any) string {
	resp, err := inprocess.Decoded(method, resp)
	if err != nil {
		return ""
	}
	return about(resp).resource
}

// Stream is the interceptor for streams. It writes one line for a stream, at its end. For a backup it
// writes another line before the first byte is sent.
func (t *Logger) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := t.Admit(info.FullMethod); err != nil {
		return err
	}
	ctx, ref := auth.WithCallerRef(stream.Context())
	first := &firstStream{ServerStream: stream, ctx: ctx}
	if op := t.operations[info.FullMethod]; op.Changes && op.Space == policy.SpaceAll {
		first.beforeFirstSend = func() error {
			return t.add(ctx, info.FullMethod, ref.Caller, first.what, outcomeStarted, "")
		}
	}
	err := next(srv, first)
	t.note(ctx, info.FullMethod, ref.Caller, first.what, err)
	return err
}

// Completed writes the line about a call of an authenticated caller that did not go through the
// interceptors.
func (t *Logger) Completed(ctx context.Context, method string, req any, err error) {
	if t != nil {
		t.note(ctx, method, auth.CallerOf(ctx), about(req), err)
	}
}

// Refused writes the line about a request that was refused before it became an authenticated call.
func (t *Logger) Refused(ctx context.Context, method string, caller *auth.Caller, err error) {
	if t != nil {
		t.note(ctx, method, caller, subject{}, err)
	}
}

// note writes a line about a change or a refusal.
func (t *Logger) note(ctx context.Context, method string, caller *auth.Caller, what subject, err error) {
	if err == nil {
		if t.operations[method].Changes {
			_ = t.add(ctx, method, caller, what, rpccode.Code_OK.String(), "")
		}
		return
	}
	st, _ := apierror.Status(err)
	reason := ""
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
		}
	}
	switch st.Code() {
	case codes.Unauthenticated, codes.PermissionDenied, codes.ResourceExhausted:
	default:
		// For a read, a missing resource is not treated as a refusal. The exception is a namespace to
		// which the caller has no right.
		if !t.operations[method].Changes && reason != "NAMESPACE_NOT_FOUND" {
			return
		}
	}
	_ = t.add(ctx, method, caller, what, rpccode.Code(st.Code()).String(), reason)
}

// outcomeStarted is the outcome in the line that is written before a stream sends data.
const outcomeStarted = "BEGUN"

// add writes a line. If there are too many lines about unauthenticated callers, add omits the line.
func (t *Logger) add(ctx context.Context, method string, caller *auth.Caller, what subject, outcome, reason string) error {
	e := audit.Entry{
		Method: strings.TrimPrefix(method, "/"), Namespace: what.namespace, Resource: what.resource, RequestID: what.id,
		Outcome: outcome, Reason: reason, Peer: auth.PeerOf(ctx),
	}
	if what.claims != "" {
		e.Note = "names " + what.claims + " as the answerer"
	}
	if caller != nil && caller.Subject != "" {
		e.Principal = caller.Name()
		if e.Namespace == "" && t.operations[method].Changes {
			e.Namespace = callerNamespace(caller)
		}
	} else if !t.unknown.Allow() {
		t.left.Add(1)
		return nil
	}
	e.LeftOut = t.left.Swap(0)
	// The log remembers its error, so that [Logger.Admit] refuses later changes.
	if t.log.Add(e) != nil {
		t.left.Add(e.LeftOut)
		return unavailable()
	}
	return nil
}

func callerNamespace(caller *auth.Caller) string {
	if own := caller.DefaultNamespace(); own != "" {
		return own
	}
	return runtime.DefaultNamespace
}

// firstStream records the subject of the first received message, and calls beforeFirstSend before the
// first sent message.
type firstStream struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // the context of the stream, with its CallerRef
	read bool
	what subject
	// beforeFirstSend is called before the first message is sent. It is nil after that call, or if the
	// stream does not need it.
	beforeFirstSend func() error
}

// Context implements grpc.ServerStream.
func (s *firstStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *firstStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil && !s.read {
		s.read, s.what = true, about(m)
	}
	return err
}

// SendMsg implements grpc.ServerStream.
func (s *firstStream) SendMsg(m any) error {
	if s.beforeFirstSend != nil {
		if err := s.beforeFirstSend(); err != nil {
			return err
		}
		s.beforeFirstSend = nil
	}
	return s.ServerStream.SendMsg(m)
}
