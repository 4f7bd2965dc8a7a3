package grpcapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/gateway"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CallCounts counts refused calls and ignored answers. Its methods are called often and must not block.
type CallCounts interface {
	// Refused is called for a refused call. method is the gRPC method without its first slash, or
	// "http" for an HTTP request that did not reach a method. reason is the reason of the error, or the
	// name of its status. Neither is a text from the caller.
	Refused(method, reason string)
	// Ignored is called when a worker's answer to a step was ignored. disposition is the reason: unknown_run,
	// terminal, stale or duplicate.
	Ignored(disposition string)
}

// These constants limit the log lines about refused calls and ignored answers of all callers together: the size of a
// burst, and the interval of further lines. If lines were omitted, the next log line contains their number.
const (
	logBurst = 20
	logEvery = time.Second
)

// methodHTTP is the method name of HTTP requests that were refused before their method was known.
const methodHTTP = "http"

// callMetrics counts and logs refused calls and ignored answers. The number of log lines is limited.
type callMetrics struct {
	counts CallCounts // nil means no counts
	log    *slog.Logger
	// Lines limits the log lines.
	Lines *rate.Limiter
	left  atomic.Int64
}

// newCallMetrics returns metrics that log to log and count in counts, which may be nil.
func newCallMetrics(counts CallCounts, log *slog.Logger) *callMetrics {
	return &callMetrics{counts: counts, log: log, Lines: rate.NewLimiter(rate.Every(logEvery), logBurst)}
}

// Refused counts and logs a status that ends a call. The log line has the name of the caller, if the caller was
// authenticated. Refused ignores calls that the caller itself has cancelled.
func (t *callMetrics) Refused(ctx context.Context, method string, st *status.Status) {
	if st.Code() == codes.OK || st.Code() == codes.Canceled {
		return
	}
	method, reason := strings.TrimPrefix(method, "/"), statusReason(st)
	if t.counts != nil {
		t.counts.Refused(method, reason)
	}
	level := slog.LevelDebug
	switch st.Code() {
	case codes.Unauthenticated, codes.PermissionDenied, codes.ResourceExhausted:
		level = slog.LevelInfo
	}
	attrs := []any{"method", method, "reason", reason}
	if name := auth.RefusedCaller(ctx); name != "" {
		attrs = append(attrs, "principal", name)
	}
	t.line(ctx, level, "call refused", attrs...)
}

// Ignored counts and logs an ignored answer to a step. A repeated answer is logged at a lower level,
// because workers are expected to repeat answers.
func (t *callMetrics) Ignored(ctx context.Context, d machine.Disposition) {
	var word string
	level := slog.LevelInfo
	switch d {
	case machine.IgnoredUnknownRun:
		word = "unknown_run"
	case machine.IgnoredTerminal:
		word = "terminal"
	case machine.IgnoredStale:
		word = "stale"
	case machine.IgnoredDuplicate:
		word, level = "duplicate", slog.LevelDebug
	case machine.Accepted, machine.DispEscalated:
		return
	default:
		return
	}
	if t.counts != nil {
		t.counts.Ignored(word)
	}
	t.line(ctx, level, "step answer ignored", "disposition", word)
}

func (t *callMetrics) line(ctx context.Context, level slog.Level, msg string, args ...any) {
	if !t.log.Enabled(ctx, level) {
		return
	}
	if !t.Lines.Allow() {
		t.left.Add(1)
		return
	}
	log := t.log
	if left := t.left.Swap(0); left > 0 {
		log = log.With("left_out", left)
	}
	log.Log(ctx, level, msg, args...)
}

// statusReason returns the reason of a status, or the name of its code if it has no reason.
func statusReason(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() != "" {
			return info.GetReason()
		}
	}
	return strings.ToUpper(st.Code().String())
}

// metricsMethod is the name of the metrics page in the table of operations.
const metricsMethod = "GET /metrics"

// newMetrics returns the listener of the metrics. It authenticates readers in the same way as callers.
// It also checks the host name of requests. Otherwise a web page under a name that resolves to this
// host could read the metrics in a browser.
func newMetrics(s *Server) *httpListener {
	mux := http.NewServeMux()
	mux.Handle(metricsMethod, s.cfg.MetricsPage)
	w := newHTTPListener(s, "metrics", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !gateway.HostNamed(r.Host, s.cfg.HTTPHosts) && !gateway.IsAddress(r.Host) {
			refusal := &machine.Error{
				Code: machine.CodePermissionDenied, Reason: "HOST_NOT_ALLOWED", Field: "Host",
				Allowed: append([]string{"loopback names", "addresses"}, s.cfg.HTTPHosts...),
				Message: "the metrics are not known by that name; configure http_host",
			}
			s.edge.metrics.Refused(r.Context(), metricsMethod, apierror.Refused(refusal))
			gateway.WriteRefusal(w, refusal)
			return
		}
		if _, err := s.Admit(r, metricsMethod); err != nil {
			st, _ := apierror.Status(err)
			gateway.WriteStatus(w, st, gateway.HTTPStatus(st))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return &w
}
