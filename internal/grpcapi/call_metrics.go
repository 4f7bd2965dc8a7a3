package grpcapi

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CallCounts counts answers that changed no state. Both methods are called often and must not wait.
type CallCounts interface {
	// Refused is called for a refused call: the method without gRPC's first slash, or "http"
	// for a request that reached none, and the reason, or the name of the status where there is
	// none. Neither is a text from the caller.
	Refused(method, reason string)
	// Ignored is called for an ignored answer to a step, with its disposition.
	Ignored(disposition string)
}

// Limits of lines about refused calls and ignored answers, for all callers together: a burst,
// and a rate per second. The next line counts the omitted ones.
const (
	logBurst = 20
	logEvery = time.Second
)

// methodHTTP stands for requests over HTTP that were refused before they had a method.
const methodHTTP = "http"

// callMetrics counts and logs, both bounded: neither grows with what callers send.
type callMetrics struct {
	counts CallCounts // nil = nobody counts
	log    *slog.Logger
	// Lines bounds how many are logged.
	Lines *rate.Limiter
	left  atomic.Int64
}

// newCallMetrics logs to log, and tells counts, which may be nil.
func newCallMetrics(counts CallCounts, log *slog.Logger) *callMetrics {
	return &callMetrics{counts: counts, log: log, Lines: rate.NewLimiter(rate.Every(logEvery), logBurst)}
}

// Refused takes note of a status that ends a call. Calls that their caller gave up
// are none.
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
	t.line(ctx, level, "call refused", "method", method, "reason", reason)
}

// Ignored takes note of what became of an answer to a step. That one is repeated is
// how workers are meant to behave.
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

// statusReason is the reason that a status names, else the name of its code.
func statusReason(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() != "" {
			return info.GetReason()
		}
	}
	return strings.ToUpper(st.Code().String())
}
