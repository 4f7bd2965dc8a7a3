package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// Attributes of a log line that is about a run.
const (
	runAttr   = "run_id"
	traceAttr = "trace_id"
)

// TraceOf is the trace of a run as log lines have it; "" = it is in none.
func TraceOf(s *machine.State) string {
	ctx, ok := trace.Of(s)
	if !ok {
		return ""
	}
	return ctx.String()[3:35]
}

// logHandler adds the trace to lines that name a run.
type logHandler struct {
	slog.Handler
	traceOf func(ctx context.Context, run string) string
}

// WithTraces makes a handler that adds trace_id to each line with the attribute run_id.
// traceOf finds the trace of a run; "" = none.
func WithTraces(next slog.Handler, traceOf func(ctx context.Context, run string) string) slog.Handler {
	return logHandler{next, traceOf}
}

// Handle implements [slog.Handler].
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	run, known := "", false
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == runAttr {
			run = a.Value.String()
		}
		known = known || a.Key == traceAttr
		return true
	})
	if run != "" && !known {
		if id := h.traceOf(ctx, run); id != "" {
			r = r.Clone()
			r.AddAttrs(slog.String(traceAttr, id))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(slices.Clone(attrs)), h.traceOf}
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.traceOf}
}

// maxLines bounds the lines that wait for the log; the log is no record of runs.
const maxLines = 256

// RunLog writes a line for each run that ends other than well, and at debug level for
// all others; and one for each tool that is denied to a pack. A log that is read slowly holds up
// no commit.
type RunLog struct {
	log   *slog.Logger
	lines chan func(context.Context)
	mu    sync.Mutex
	// warned are the pairs of pack and tool that the log has a warning of.
	warned *cache.LRU[[2]string, struct{}]
}

// NewRunLog makes a log of runs.
func NewRunLog(log *slog.Logger) *RunLog {
	return &RunLog{log: log, lines: make(chan func(context.Context), maxLines), warned: newWarned()}
}

// Observe takes note of a commit. It never waits.
func (l *RunLog) Observe(b *machine.Batch) {
	for i := range b.Records {
		if body, ok := b.Records[i].Body.(*machine.StepRejected); ok {
			l.denied(b.State, body)
		}
	}
	if !b.State.Status.Terminal() || !ends(b) || !l.log.Enabled(context.Background(), levelOf(b.State.Status)) {
		return
	}
	l.later(func(ctx context.Context) { l.write(ctx, b.State) })
}

// later lets a line be written by Run; false: too many wait.
func (l *RunLog) later(line func(context.Context)) bool {
	select {
	case l.lines <- line:
		return true
	default:
		return false
	}
}

// ends: the run's end is in the commit; what a call consumed may be told of later.
func ends(b *machine.Batch) bool {
	return slices.ContainsFunc(b.Records, func(r machine.Record) bool { return machine.RecordKindOf(r.Body) == machine.RecEnded })
}

func levelOf(s machine.Status) slog.Level {
	switch s {
	case machine.Escalated:
		return slog.LevelWarn
	case machine.Failed, machine.BudgetExhausted:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Run writes until ctx ends, and then what is left.
func (l *RunLog) Run(ctx context.Context) {
	for {
		select {
		case line := <-l.lines:
			line(ctx)
			continue
		default:
		}
		select {
		case line := <-l.lines:
			line(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (l *RunLog) write(ctx context.Context, s *machine.State) {
	l.log.Log(ctx, levelOf(s.Status), "run ended", runAttr, s.RunID, "seq", s.Seq, traceAttr, TraceOf(s),
		"pack", s.PackID, "status", s.Status.String(), "reason", s.Reason)
}
