package telemetry

import (
	"context"
	"log/slog"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func (m *Metrics) countWorkerFailures() {
	m.failures = m.counters("pawl_worker_failures_total",
		"Turns and steps that a worker failed or lost, by kind (turn, step) and cause (failed, expired, disconnected).", "kind", "cause")
	// The series exist with the value 0 before the first count, so that a rate over them starts correctly.
	for _, kind := range []machine.WorkKind{machine.TurnWork, machine.StepWork} {
		for _, cause := range []dispatch.FailureCause{dispatch.FailureAnswered, dispatch.FailureExpired, dispatch.FailureDisconnected} {
			m.failures.WithLabelValues(workKind(kind), cause.String())
		}
	}
}

func workKind(k machine.WorkKind) string {
	if k == machine.StepWork {
		return "step"
	}
	return "turn"
}

// WorkerFailed counts a turn or step that a worker failed or lost. A nil Metrics does not count.
func (m *Metrics) WorkerFailed(f *dispatch.Failure) {
	if m != nil {
		m.failures.WithLabelValues(workKind(f.Class.Kind), f.Cause.String()).Inc()
	}
}

// WorkerFailed queues a line about a turn or step that a worker failed (level info) or lost (level warn). The line has
// the code of the error and not its message, because a message can repeat values of the run. It never waits.
func (l *RunLog) WorkerFailed(namespace string, f *dispatch.Failure) {
	level := slog.LevelWarn
	if f.Cause == dispatch.FailureAnswered {
		level = slog.LevelInfo
	}
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	work := []any{"prompt", f.Class.Prompt}
	switch {
	case f.Class.Tool != "":
		work = []any{"tool", f.Class.Tool}
	case f.Class.Agent != "":
		work = []any{"agent", f.Class.Agent}
	}
	l.enqueue(func(ctx context.Context) {
		l.log.Log(ctx, level, "worker failed or lost its work", append(work, "worker_id", f.Worker, "namespace", namespace, runAttr, f.RunID,
			"pack", f.Class.PackID, "attempt", f.Attempt, "cause", f.Cause.String(), "code", f.Error.Code)...)
	})
}
