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

// chain builds the interceptors, outermost first: recovery from panics, the form of errors, the
// audit, authentication, limits, and the constraints of the request. Single calls are logged
// only at debug level; otherwise the log has faults only, and a successful call costs it no
// time.
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

// outerChain are the interceptors of a unary call before authentication.
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

// innerChain is what it passes behind that.
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
	// A fault of one request of a stream of many must not end it: the service checks
	// them itself.
	own := mwvalidate.WithIgnoreMessages((&pawlv1.WorkRequest{}).ProtoReflect().Type(),
		// It has no constraints, and is the one request of a start, which waits for SERVING.
		(&healthpb.HealthCheckRequest{}).ProtoReflect().Type())
	return append(out, mwvalidate.StreamServerInterceptor(validator, own))
}

func logsCalls(log *slog.Logger) bool { return log.Enabled(context.Background(), slog.LevelDebug) }

func slogLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, _ logging.Level, msg string, fields ...any) {
		log.DebugContext(ctx, msg, withoutError(fields)...)
	})
}

// withoutError drops the text of an error, which may quote the caller.
func withoutError(fields []any) []any {
	out := make([]any, 0, len(fields))
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] != "grpc.error" {
			out = append(out, fields[i], fields[i+1])
		}
	}
	return out
}

// reasonField is what a log line says of a refusal.
func reasonField(err error) logging.Fields {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return logging.Fields{"reason", refusal.Reason}
	}
	return nil
}

// edge is where calls enter and errors leave the process: each error gets its
// status here, and what is withheld from the caller is logged here, once.
type edge struct {
	log     *slog.Logger
	metrics *callMetrics
	// auditLog is nil unless there is an audit.
	auditLog *auditlog.Logger
	// calls counts the unary calls under way.
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

// known answers calls of methods that have no row in the table of operations: gRPC takes them for
// streams, and its own answer has no reason. The metrics have one name for all of them.
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

// unknownMethod makes gRPC pass calls of unknown methods through the interceptors, which answer.
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

// recovered answers a panic; it runs outside of edge.finish and so logs itself.
func (e *edge) recovered(ctx context.Context, cause any) error {
	method, _ := grpc.Method(ctx)
	withheld := apierror.Withhold(fmt.Errorf("panic: %v", cause))
	e.log.ErrorContext(ctx, "call panicked", "method", method, "correlation_id", withheld.ID,
		"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	st, _ := apierror.Hidden(withheld)
	e.metrics.Refused(ctx, method, st)
	return st.Err()
}
