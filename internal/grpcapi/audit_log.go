package grpcapi

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/time/rate"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// These constants limit the audit lines about unauthenticated callers: the size of a burst, and the rate per second. If
// lines were omitted, the next audit line contains their number.
const (
	unknownBurst  = 500
	unknownPerSec = 50
)

// maxTextBytes limits each text that is copied from a request to a line, in bytes.
const maxTextBytes = 256

// auditLogger writes the lines of the audit log. Each call that changes state and each call that is refused has one
// line. There are two exceptions: a backup has two lines, and a failed read has a line only if a right, the namespace
// or a limit refused it. A line contains the caller, the resource, the outcome and the origin, but never a payload. The
// line about a change is written before the change is answered. While lines cannot be written, calls that change state
// are refused. Lines about unauthenticated callers are limited, so that they cannot fill the disk. A nil auditLogger
// writes none. Safe for concurrent use.
type auditLogger struct {
	log        *audit.Log
	operations map[string]runtime.Operation
	unknown    *rate.Limiter
	left       atomic.Int64
}

// newAuditLogger returns an auditLogger that writes to log. operations are the known operations by name. If log is nil,
// newAuditLogger returns nil.
func newAuditLogger(log *audit.Log, operations map[string]runtime.Operation) *auditLogger {
	if log == nil {
		return nil
	}
	return &auditLogger{log: log, operations: operations, unknown: rate.NewLimiter(unknownPerSec, unknownBurst)}
}

// Admit returns an error if a call changes state and the audit log cannot be written.
func (t *auditLogger) Admit(method string) error {
	if t == nil || !t.operations[method].Changes || t.log.Ready() == nil {
		return nil
	}
	return auditUnavailable()
}

func auditUnavailable() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: "AUDIT_UNAVAILABLE", RetryAfter: int64(time.Second),
		Message: "the audit cannot be written, and nothing is changed without it",
	}
}

// Unary is the interceptor for unary calls. It runs before authentication, so that it also sees refused
// callers. The interceptor that converts errors also converts its errors.
func (t *auditLogger) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	if err := t.Admit(info.FullMethod); err != nil {
		return nil, err
	}
	ctx, ref := auth.WithCallerRef(ctx)
	ended := false
	defer func() {
		if !ended {
			_ = t.add(ctx, info.FullMethod, ref.Caller, auditSubject(req), rpccode.Code_INTERNAL.String(), "PANIC")
		}
	}()
	resp, err = next(ctx, req)
	ended = true
	subject := auditSubject(req)
	if subject.resource == "" && err == nil && t.operations[info.FullMethod].Changes {
		subject.resource = createdResource(info.FullMethod, resp)
	}
	t.note(ctx, info.FullMethod, ref.Caller, subject, err)
	return resp, err
}

// createdResource returns the name of the resource that the call created, according to its answer. It returns ""
// if there is none.
func createdResource(method string, resp any) string {
	resp, err := decodedAnswer(method, resp)
	if err != nil {
		return ""
	}
	return auditSubject(resp).resource
}

// Stream is the interceptor for streams. It writes one line for a stream that changes state or is refused, at its end.
// For a backup it writes another line before the first byte is sent.
func (t *auditLogger) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := t.Admit(info.FullMethod); err != nil {
		return err
	}
	ctx, ref := auth.WithCallerRef(stream.Context())
	first := &firstStream{ServerStream: stream, ctx: ctx}
	if op := t.operations[info.FullMethod]; op.Changes && op.Space == policy.SpaceAll {
		first.beforeFirstSend = func() error {
			return t.add(ctx, info.FullMethod, ref.Caller, first.subject, outcomeStarted, "")
		}
	}
	ended := false
	defer func() {
		if !ended {
			_ = t.add(ctx, info.FullMethod, ref.Caller, first.subject, rpccode.Code_INTERNAL.String(), "PANIC")
		}
	}()
	err := next(srv, first)
	ended = true
	t.note(ctx, info.FullMethod, ref.Caller, first.subject, err)
	return err
}

// Completed writes the line about a call of an authenticated caller that did not go through the
// interceptors.
func (t *auditLogger) Completed(ctx context.Context, method string, req any, err error) {
	if t != nil {
		t.note(ctx, method, auth.CallerOf(ctx), auditSubject(req), err)
	}
}

// Refused writes the line about a request that was refused before it became an authenticated call.
func (t *auditLogger) Refused(ctx context.Context, method string, caller *auth.Caller, err error) {
	if t != nil {
		t.note(ctx, method, caller, subject{}, err)
	}
}

// note writes the audit line of a call that changed state or was refused. It writes none for a successful read.
func (t *auditLogger) note(ctx context.Context, method string, caller *auth.Caller, what subject, err error) {
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
func (t *auditLogger) add(ctx context.Context, method string, caller *auth.Caller, what subject, outcome, reason string) error {
	e := audit.Entry{
		Method: strings.TrimPrefix(method, "/"), Namespace: what.namespace, Resource: what.resource, RequestID: what.id,
		Step: what.step, Decision: what.decision, Outcome: outcome, Reason: reason, Peer: auth.PeerOf(ctx),
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
	// The audit log remembers a failed write, so that [auditLogger.Admit] refuses later calls that change state.
	if t.log.Add(e) != nil {
		t.left.Add(e.LeftOut)
		return auditUnavailable()
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
	ctx     context.Context //nolint:containedctx // the context of the stream, with its CallerRef
	read    bool
	subject subject
	// beforeFirstSend is called before the first message is sent. It is nil after it was called without an error, or if
	// the stream does not need it.
	beforeFirstSend func() error
}

// Context implements grpc.ServerStream.
func (s *firstStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *firstStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil && !s.read {
		s.read, s.subject = true, auditSubject(m)
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

// subject is the part of a line that describes a request: the namespace, the resource, the id that the
// caller chose for the request, the principal for which the caller claims to act, and the decision about a step.
type subject struct {
	namespace, resource, id, claims, decision string
	step                                      uint32
}

// auditSubject returns the names and ids of a request. It never returns values.
func auditSubject(m any) subject {
	var s subject
	switch in := m.(type) {
	case interface{ GetNamespace() string }:
		s.namespace = clip(in.GetNamespace())
	case interface{ GetTenant() string }:
		namespace, _ := validate.SplitTenant(in.GetTenant())
		s.namespace = clip(namespace)
	}
	s.resource, s.id = clip(resourceOf(m)), clip(idOf(m))
	switch in := m.(type) {
	case *a2apb.SendMessageRequest:
		s.claims = clip(protocol.AnswererOf(in.GetMessage()))
		s.step, s.decision = messageDecision(in.GetMessage())
	case *pawlv1.DecideStepRequest:
		s.step, s.decision = in.GetStep(), strings.TrimPrefix(in.GetDecision().String(), "STEP_DECISION_")
	}
	return s
}

// messageDecision returns the step and the decision in a message of A2A. They are 0 and "" if the message has no valid
// decision.
func messageDecision(msg *a2apb.Message) (uint32, string) {
	parts, err := protocol.PartsFromProto("message.parts", msg.GetParts())
	if err != nil {
		return 0, ""
	}
	c, err := protocol.DecisionOf(parts)
	if err != nil || c == nil {
		return 0, ""
	}
	return c.Step, map[machine.Verdict]string{machine.Approved: "APPROVE", machine.Refused: "DENY", machine.Edited: "EDIT"}[c.Verdict]
}

// resourceOf returns the id of the resource that a request or a response names, for the audit line. It returns ""
// if there is none.
func resourceOf(m any) string {
	switch in := m.(type) {
	case interface{ GetRunId() string }:
		return in.GetRunId()
	case interface{ GetRun() *pawlv1.Run }:
		return in.GetRun().GetRunId()
	case interface{ GetWebhookId() string }:
		return in.GetWebhookId()
	case interface{ GetConsumer() string }:
		return in.GetConsumer()
	case interface{ GetRef() *pawlv1.DeliveryRef }:
		return in.GetRef().GetId()
	case *pawlv1.RegisterPackResponse:
		return in.GetPack().GetDigest()
	case interface{ GetUploadId() string }:
		return in.GetUploadId()
	case *pawlv1.WorkRequest:
		return in.GetRegister().GetWorkerId()
	case *a2apb.SendMessageRequest:
		return in.GetMessage().GetTaskId()
	case interface{ GetTaskId() string }:
		return in.GetTaskId()
	case *a2apb.CancelTaskRequest:
		return in.GetId()
	}
	return ""
}

// idOf returns the id that the caller chose for a request, for the audit line. It returns "" if there is none.
func idOf(m any) string {
	switch in := m.(type) {
	case interface{ GetRequestId() string }:
		return in.GetRequestId()
	case interface{ GetEventId() string }:
		return in.GetEventId()
	case interface{ GetMessageId() string }:
		return in.GetMessageId()
	case interface{ GetWriteId() string }:
		return in.GetWriteId()
	case *a2apb.SendMessageRequest:
		return in.GetMessage().GetMessageId()
	}
	return ""
}

func clip(s string) string { return apierror.Clip(s, maxTextBytes) }
