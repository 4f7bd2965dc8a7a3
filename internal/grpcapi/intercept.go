package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"buf.build/go/protovalidate"
	mwauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	mwvalidate "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/protovalidate"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auditlog"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/calllimit"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
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

func unaryChain(edge *edge, authn *auth.Authenticator, limit *calllimit.Limiter, validator protovalidate.Validator) []grpc.UnaryServerInterceptor {
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
func innerChain(limit *calllimit.Limiter, validator protovalidate.Validator) []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{auth.UnaryCheckNamespace, limit.Unary, mwvalidate.UnaryServerInterceptor(validator)}
}

func streamChain(edge *edge, authn *auth.Authenticator, limit *calllimit.Limiter, validator protovalidate.Validator) []grpc.StreamServerInterceptor {
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
		// This request has no constraints. A client that starts sends it until the answer is SERVING.
		// It should not have to wait until the constraints are compiled.
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
	auditLog *auditlog.Logger
	// calls is the number of running unary calls.
	calls atomic.Int64
}

func (e *edge) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	e.calls.Add(1)
	defer e.calls.Add(-1)
	resp, err := next(ctx, req)
	if err != nil {
		return nil, e.finish(ctx, info.FullMethod, err)
	}
	return resp, nil
}

func (e *edge) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := next(srv, codec.NewStream(stream)); err != nil {
		return e.finish(stream.Context(), info.FullMethod, err)
	}
	return nil
}

// known answers calls of methods that are not in the table of operations. gRPC treats such calls as
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
