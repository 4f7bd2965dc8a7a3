package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// Attributes of a log line about a run.
const (
	runAttr       = "run_id"
	traceAttr     = "trace_id"
	namespaceAttr = "namespace"
)

// TraceOf returns the trace id of a run for log lines. It returns "" if the run has no trace.
func TraceOf(s *machine.State) string {
	ctx, ok := trace.ContextOf(s)
	if !ok {
		return ""
	}
	// The text has the form of a traceparent: the trace id follows the version.
	return ctx.String()[3:35]
}

// RunContext is what each log line about a run has besides its run_id. Trace is "" for a run without a trace.
type RunContext struct{ Namespace, Trace string }

// logHandler adds the namespace and the trace id to lines that name a run.
type logHandler struct {
	slog.Handler
	find func(ctx context.Context, run string) RunContext
}

// WithRuns returns a handler that adds namespace and trace_id to each line with the attribute run_id, as far as the
// line does not have them yet. It looks only at attributes of the line itself, not at those of [slog.Logger.With].
// find returns what is known about a run.
func WithRuns(next slog.Handler, find func(ctx context.Context, run string) RunContext) slog.Handler {
	return logHandler{next, find}
}

// Handle implements [slog.Handler].
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	run, given := "", map[string]bool{}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == runAttr {
			run = a.Value.String()
		}
		given[a.Key] = true
		return true
	})
	if run == "" || given[namespaceAttr] && given[traceAttr] {
		return h.Handler.Handle(ctx, r)
	}
	of, added := h.find(ctx, run), r.Clone()
	if of.Namespace != "" && !given[namespaceAttr] {
		added.AddAttrs(slog.String(namespaceAttr, of.Namespace))
	}
	if of.Trace != "" && !given[traceAttr] {
		added.AddAttrs(slog.String(traceAttr, of.Trace))
	}
	return h.Handler.Handle(ctx, added)
}

// WithAttrs implements [slog.Handler].
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(slices.Clone(attrs)), h.find}
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.find}
}

// maxLines bounds the lines that wait to be written. Further lines are dropped.
const maxLines = 256

// RunLog logs the end of each run: at level warn if the run was escalated, at level info if it failed or
// exhausted its budget, and at level debug otherwise. It also logs each tool that is denied to a pack, evals
// below their threshold, and failures of workers. A slow log does not delay commits: lines that do not fit in
// the queue are dropped.
type RunLog struct {
	log   *slog.Logger
	lines chan func(context.Context)
	mu    sync.Mutex
	// warned are the pairs of pack and tool for which a warning was logged.
	warned *cache.LRU[[2]string, struct{}]
}

// NewRunLog returns a RunLog that writes to log.
func NewRunLog(log *slog.Logger) *RunLog {
	return &RunLog{log: log, lines: make(chan func(context.Context), maxLines), warned: newWarned()}
}

// OnCommit implements [runtime.Observer]. It queues the lines of a commit. It never waits.
func (l *RunLog) OnCommit(c *runtime.Commit) {
	b := c.Batch
	for i := range b.Records {
		switch body := b.Records[i].Body.(type) {
		case *machine.StepRejected:
			l.denied(b.State, body)
		case *machine.Evaluated:
			l.evaluated(b.State, body.Results)
		}
	}
	if !b.State.Status.Terminal() || !ends(b) || !l.log.Enabled(context.Background(), levelOf(b.State.Status)) {
		return
	}
	l.enqueue(func(ctx context.Context) { l.write(ctx, b.State) })
}

// evaluated queues a warning for each result that does not pass the threshold that its pack declares. All results of a record take one place
// in the queue.
func (l *RunLog) evaluated(s *machine.State, results []machine.EvalResult) {
	if !slices.ContainsFunc(results, isBelowThreshold) {
		return
	}
	l.enqueue(func(ctx context.Context) {
		for i := range results {
			if r := &results[i]; isBelowThreshold(*r) {
				l.log.WarnContext(ctx, "an eval does not pass its threshold", runAttr, s.RunID, traceAttr, TraceOf(s), "pack", s.PackID,
					"eval", r.ID, "turn", r.TurnSeq, "score", float64(r.Score)/machine.ScoreFull, "threshold", r.Threshold)
			}
		}
	})
}

// isBelowThreshold reports whether a result has a score that does not pass its declared threshold.
func isBelowThreshold(r machine.EvalResult) bool {
	return r.Threshold != "" && !r.Passed && r.Error == ""
}

// enqueue queues a line that [RunLog.Run] writes. It returns false if too many lines are queued.
func (l *RunLog) enqueue(line func(context.Context)) bool {
	select {
	case l.lines <- line:
		return true
	default:
		return false
	}
}

// ends reports whether the commit contains the end of the run. Not every commit of an ended run does: usage of model
// calls may be committed later.
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

// Run writes the queued lines until ctx ends. Then it writes the remaining lines.
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
