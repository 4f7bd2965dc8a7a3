package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/telemetry"
)

// TestLogHasTraces: a line about a run that is in a trace says so, once.
func TestLogHasTraces(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	traceOf := func(_ context.Context, run string) string {
		return map[string]string{"R": "abc"}[run]
	}
	log := slog.New(telemetry.WithTraces(slog.NewTextHandler(&out, nil), traceOf)).With("host", "h")
	for line, want := range map[string]int{"R": 1, "other": 0} {
		out.Reset()
		log.Info("x", "run_id", line)
		if got := strings.Count(out.String(), "trace_id=abc"); got != want {
			t.Errorf("run %s: %s", line, out.String())
		}
	}
	out.Reset()
	log.Info("x", "run_id", "R", "trace_id", "abc")
	if strings.Count(out.String(), "trace_id") != 1 {
		t.Errorf("twice: %s", out.String())
	}
}
