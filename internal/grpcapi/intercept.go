package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"buf.build/go/protovalidate"
	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	mwauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	mwvalidate "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/protovalidate"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// chain returns the interceptors of all calls, outermost first. The order matters:
//
//  1. recovery answers a panic anywhere below it.
//  2. known (streams only) answers unknown methods, which have no rights to check.
//  3. edge converts every error from below to a status and counts it.
//  4. the audit log writes a line about a change or a refusal, also of a call that step 6 refuses.
//  5. the call log, at debug level only, so that a successful call normally costs no time.
//  6. authentication identifies the caller and checks its scopes. All below it know the caller.
//  7. the namespace check: the first check of a request, so that no later error reveals a namespace.
//  8. the limits of the principal and the namespace. A call above a limit costs no validation.
//  9. the constraints of the proto files.
//  10. routed, if the server has a router: it replaces the handler.
func (s *Server) chain() []grpc.ServerOption {
	unary, stream := unaryChain(s.edge, s.auth, s.limit, s.validator), streamChain(s.edge, s.auth, s.limit, s.validator)
	if s.cfg.Router != nil {
		to := &routed{s: s}
		unary, stream = append(unary, to.unary), append(stream, to.stream)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...)}
}

func unaryChain(edge *edge, authn *auth.Authenticator, limit *callLimiter, validator protovalidate.Validator) []grpc.UnaryServerInterceptor {
	return append(append(outerChain(edge), mwauth.UnaryServerInterceptor(authn.Admit)), innerChain(limit, validator)...)
}

// outerChain returns the interceptors of a unary call before authentication.
func outerChain(edge *edge) []grpc.UnaryServerInterceptor {
	out := []grpc.UnaryServerInterceptor{
		recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(edge.recovered)), edge.unary,
	}
	if edge.auditLog != nil {
		out = append(out, edge.auditLog.Unary)
	}
	if logsCalls(edge.log) {
		out = append(out, logging.UnaryServerInterceptor(slogLogger(edge.log), logging.WithLogOnEvents(logging.FinishCall), logging.WithErrorFields(reasonField)))
	}
	return out
}

// innerChain returns the interceptors of a unary call after authentication.
func innerChain(limit *callLimiter, validator protovalidate.Validator) []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{auth.UnaryCheckNamespace, limit.Unary, mwvalidate.UnaryServerInterceptor(validator)}
}

// streamChain returns the interceptors of streams, in the order in which they run.
func streamChain(edge *edge, authn *auth.Authenticator, limit *callLimiter, validator protovalidate.Validator) []grpc.StreamServerInterceptor {
	out := []grpc.StreamServerInterceptor{
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(edge.recovered)), edge.known(authn.Operations), edge.stream,
	}
	if edge.auditLog != nil {
		out = append(out, edge.auditLog.Stream)
	}
	if logsCalls(edge.log) {
		out = append(out, logging.StreamServerInterceptor(slogLogger(edge.log), logging.WithLogOnEvents(logging.FinishCall), logging.WithErrorFields(reasonField)))
	}
	out = append(out, mwauth.StreamServerInterceptor(authn.Admit), auth.StreamCheckNamespace, limit.Stream)
	// One bad request in a worker's stream must not end the stream. So the service checks these
	// requests itself.
	own := mwvalidate.WithIgnoreMessages((&pawlv1.WorkRequest{}).ProtoReflect().Type(),
		// A health check has no constraints. A client that starts sends it until the answer is SERVING. It should not
		// have to wait until the constraints are compiled.
		(&healthpb.HealthCheckRequest{}).ProtoReflect().Type())
	return append(out, mwvalidate.StreamServerInterceptor(validator, own))
}

func logsCalls(log *slog.Logger) bool { return log.Enabled(context.Background(), slog.LevelDebug) }

func slogLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, _ logging.Level, msg string, fields ...any) {
		log.DebugContext(ctx, msg, withoutError(fields)...)
	})
}

// withoutError removes the text of an error from log fields, because the text may contain data of the
// caller.
func withoutError(fields []any) []any {
	out := make([]any, 0, len(fields))
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] != "grpc.error" {
			out = append(out, fields[i], fields[i+1])
		}
	}
	return out
}

// reasonField returns a log field with the reason of an error.
func reasonField(err error) logging.Fields {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return logging.Fields{"reason", refusal.Reason}
	}
	return nil
}

// edge converts each error of a call to a status. It is the place where calls enter the process and
// errors leave it. If the caller must not see the cause of an error, edge logs the cause once.
type edge struct {
	log     *slog.Logger
	metrics *callMetrics
	// auditLog is nil if there is no audit.
	auditLog *auditLogger
	// calls is the number of running unary calls.
	calls atomic.Int64
}

func (e *edge) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	e.calls.Add(1)
	defer e.calls.Add(-1)
	ctx, _ = auth.WithCallerRef(ctx)
	resp, err := next(ctx, req)
	if err != nil {
		return nil, e.finish(ctx, info.FullMethod, err)
	}
	return resp, nil
}

func (e *edge) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	outer := middleware.WrapServerStream(stream)
	outer.WrappedContext, _ = auth.WithCallerRef(stream.Context())
	if err := next(srv, codec.NewStream(outer)); err != nil {
		return e.finish(outer.WrappedContext, info.FullMethod, err)
	}
	return nil
}

// known answers calls of methods that are not in the table of operations. gRPC treats these calls as
// streams, and its own answer has no reason. In the metrics, all unknown methods have the same name.
func (e *edge) known(table map[string]runtime.Operation) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if table[info.FullMethod].Name != "" {
			return next(srv, stream)
		}
		st := apierror.Unknown(info.FullMethod)
		e.metrics.Refused(stream.Context(), "(unknown)", st)
		return st.Err()
	}
}

// unknownMethod is the handler of unknown methods. With it, gRPC passes calls of unknown methods
// through the interceptors. An interceptor answers these calls before this handler runs.
func unknownMethod(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	return apierror.Unknown(method).Err()
}

func (e *edge) finish(ctx context.Context, method string, err error) error {
	st, withheld := apierror.Status(err)
	e.metrics.Refused(ctx, method, st)
	if withheld != nil {
		e.log.ErrorContext(ctx, "call failed", "method", method, "correlation_id", withheld.ID, "error", withheld.Cause)
	}
	return st.Err()
}

// recovered logs a panic and returns the error for the call. The call did not return through
// edge.finish, so recovered also counts the error.
func (e *edge) recovered(ctx context.Context, cause any) error {
	method, _ := grpc.Method(ctx)
	withheld := apierror.Withhold(fmt.Errorf("panic: %v", cause))
	e.log.ErrorContext(ctx, "call panicked", "method", method, "correlation_id", withheld.ID,
		"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	st, _ := apierror.Hidden(withheld)
	e.metrics.Refused(ctx, method, st)
	return st.Err()
}

// callLimiter limits calls for each principal and each namespace. Package quota counts the rates. Its errors
// contain a RetryInfo with the time after which the caller may try again. The interceptor of the middleware library cannot do this.
type callLimiter struct {
	// book contains the quotas. perSecond is the limit for principals without a quota. 0 means that
	// there is no limit.
	book      *quota.Limits
	perSecond float64
}

// newCallLimiter returns a callLimiter with the quotas of book. perSecond is the number of calls per second for
// principals without a quota.
func newCallLimiter(perSecond float64, book *quota.Limits) *callLimiter {
	return &callLimiter{book: book, perSecond: perSecond}
}

// Admit takes one call from the quota of the caller and one from the quota of the namespace. If one of
// the quotas is used up, it takes none. It ignores the namespace "".
func (l *callLimiter) Admit(ctx context.Context, namespace string) error {
	entered, err := l.Enter(ctx)
	if err == nil {
		err = l.OfSpace(entered, namespace)
	}
	return err
}

// backKey is the context key of a function that gives the call back to the caller's quota.
type backKey struct{}

// Enter takes one call from the quota of the caller. It is used if the namespace of the call is not
// known yet. When the namespace is known, [callLimiter.OfSpace] must be called once, with the returned
// context.
func (l *callLimiter) Enter(ctx context.Context) (context.Context, error) {
	caller := quota.Principal(auth.CallerOf(ctx).Speaker())
	back, err := l.book.SpendElse(caller, quota.Calls, l.perSecond, time.Now())
	if err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, backKey{}, back), nil
}

// OfSpace takes one call from the quota of a namespace. If this quota is used up, OfSpace returns the
// call to the caller's quota. It ignores the namespace "".
func (l *callLimiter) OfSpace(ctx context.Context, namespace string) error {
	if namespace == "" {
		return nil
	}
	_, err := l.book.Spend(quota.Namespace(namespace), quota.Calls, time.Now())
	if back, ok := ctx.Value(backKey{}).(func()); ok && err != nil {
		back()
	}
	return err
}

// Unary is [callLimiter.Admit] for unary calls.
func (l *callLimiter) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := l.Admit(ctx, auth.SpaceOf(ctx, req)); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream counts a stream as one call. It takes the call from the caller's quota before the stream
// begins, and from the namespace's quota when the first message names the namespace.
func (l *callLimiter) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	entered, err := l.Enter(stream.Context())
	if err != nil {
		return err
	}
	return next(srv, &firstOf{ServerStream: stream, entered: entered, limit: l})
}

// firstOf is a stream. When its first message arrives, the stream is counted in the quota of the
// namespace of the message.
type firstOf struct {
	grpc.ServerStream
	entered context.Context //nolint:containedctx // that of the stream, with what its caller spent
	limit   *callLimiter
	counted bool
}

// RecvMsg implements grpc.ServerStream.
func (s *firstOf) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || s.counted {
		return err
	}
	s.counted = true
	return s.limit.OfSpace(s.entered, auth.SpaceOf(s.Context(), m))
}

// fastValidator is a fast path for requests that certainly satisfy the constraints of the API (pawl.v1). It takes a
// twentieth of the time of the validation by reflection, which took a sixth of a busy server's time. It never refuses
// a request. A request that is not certainly valid, or is of an unknown kind, is validated by reflection.
type fastValidator struct{ protovalidate.Validator }

// newFastValidator returns a fastValidator. For the requests that it cannot decide, it uses protovalidate's global
// validator.
func newFastValidator() fastValidator { return fastValidator{protovalidate.GlobalValidator} }

// Validate implements protovalidate.Validator.
func (v fastValidator) Validate(m proto.Message, options ...protovalidate.ValidationOption) error {
	if fastValid(m) {
		return nil
	}
	return v.Validator.Validate(m, options...)
}

// fastValid reports whether a request certainly satisfies the constraints of the API. TestFastValidIsTheContract
// compares it with the constraints in the proto files.
func fastValid(m proto.Message) bool {
	switch in := m.(type) {
	case *pawlv1.EmitEventRequest:
		return fastValidRun(in) && within1(in.GetEvent(), 256) && len(in.GetEventId()) <= 128 && len(in.GetTurnToken()) <= 256 &&
			fastValidWrites(in.GetArtifacts())
	case *pawlv1.GetTurnRequest:
		return fastValidRun(in)
	case *pawlv1.SetArtifactsRequest:
		return fastValidRun(in) && len(in.GetArtifacts()) > 0 && len(in.GetWriteId()) <= 128 && len(in.GetTurnToken()) <= 256 &&
			fastValidWrites(in.GetArtifacts())
	case *pawlv1.CompleteTurnRequest:
		return fastValidCompletion(in)
	case *pawlv1.WorkRequest:
		turns, steps := in.GetCredits().GetTurns(), in.GetCredits().GetSteps()
		ending, ok := in.GetItem().(*pawlv1.WorkRequest_CompleteTurn)
		return ok && fastValidCompletion(ending.CompleteTurn) && in.GetNamespace() == "" && len(in.GetMore()) == 0 &&
			turns >= 0 && turns <= 10_000 && steps >= 0 && steps <= 10_000
	}
	return false
}

func fastValidCompletion(in *pawlv1.CompleteTurnRequest) bool {
	if !fastValidRun(in) || in.GetTurnSeq() == 0 || in.GetAttempt() < 1 || len(in.GetTurnToken()) > 256 || in.GetAwaiting() != 0 ||
		len(in.GetEvent()) > 256 || len(in.GetRequestId()) > 128 || len(in.GetMessages()) > 256 {
		return false
	}
	for _, message := range in.GetMessages() {
		if !fastValidMessage(message) {
			return false
		}
	}
	return fastValidParts(in.GetOutput()) && fastValidUsage(in.GetUsage()) && fastValidWrites(in.GetArtifacts())
}

// fastValidRun reports whether the run id and the namespace of a request have the right form.
func fastValidRun(in convert.RunRequest) bool {
	id, namespace := in.GetRunId(), in.GetNamespace()
	if len(id) != 26 || id[0] < '0' || id[0] > '7' || len(namespace) > 63 {
		return false
	}
	for i := 1; i < len(id); i++ {
		if !crockford[id[i]] {
			return false
		}
	}
	for i := range len(namespace) {
		c := namespace[i]
		if letter := c >= 'a' && c <= 'z'; !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return true
}

// crockford contains the letters and digits that may occur in a ULID.
var crockford = func() (set [256]bool) {
	for _, c := range "0123456789ABCDEFGHJKMNPQRSTVWXYZ" {
		set[c] = true
	}
	return set
}()

// within1 reports whether s is not empty and not longer than most.
func within1(s string, most int) bool { return s != "" && len(s) <= most }

func fastValidWrites(writes []*pawlv1.ArtifactWrite) bool {
	for _, w := range writes {
		if w.GetValue().GetValue() == nil || !within1(w.GetName(), 256) || len(w.GetValue().GetMediaType()) > 255 {
			return false
		}
	}
	return len(writes) <= 64
}

func fastValidParts(parts []*pawlv1.Part) bool {
	for _, p := range parts {
		switch p.GetContent().(type) {
		case *pawlv1.Part_Text, *pawlv1.Part_Json, *pawlv1.Part_Data:
		default:
			return false
		}
		if len(p.GetMediaType()) > 255 || len(p.GetFilename()) > 1024 || len(p.GetMetadataJson()) > 65536 {
			return false
		}
	}
	return len(parts) <= 64
}

func fastValidMessage(m *pawlv1.Message) bool {
	switch m.GetRole() {
	case "user", "assistant", "tool", "system":
		return m.GetEnvelope() == nil && len(m.GetToolCallId()) <= 4096 && fastValidParts(m.GetParts())
	}
	return false
}

func fastValidUsage(u *pawlv1.Usage) bool {
	const most = 1_000_000_000_000
	amount := func(n int64) bool { return n >= 0 && n <= most }
	return amount(u.GetInputTokens()) && amount(u.GetOutputTokens()) && amount(u.GetCostMicroUsd()) &&
		amount(u.GetCachedTokens()) && amount(u.GetReasoningTokens()) && len(u.GetModel()) <= 256 &&
		u.GetToolCalls() >= 0 && u.GetToolCalls() <= 1_000_000
}
