package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/telemetry"
)

// TestLogNamesNamespaceAndTrace: a line about a run has its namespace, and its trace if it is in one, each once.
func TestLogNamesNamespaceAndTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	find := func(_ context.Context, run string) telemetry.RunContext {
		return map[string]telemetry.RunContext{"R": {Namespace: "red", Trace: "abc"}, "untraced": {Namespace: "red"}}[run]
	}
	log := slog.New(telemetry.WithRuns(slog.NewTextHandler(&out, nil), find)).With("host", "h")
	for _, tt := range []struct {
		attrs []any
		want  string
	}{
		{[]any{"run_id", "R"}, "run_id=R namespace=red trace_id=abc"},
		{[]any{"run_id", "untraced"}, "run_id=untraced namespace=red"},
		{[]any{"run_id", "other"}, "run_id=other"},
		{[]any{"run_id", "R", "trace_id", "abc"}, "run_id=R trace_id=abc namespace=red"},
		{[]any{"namespace", "red", "run_id", "R"}, "namespace=red run_id=R trace_id=abc"},
		{[]any{"count", 1}, "count=1"},
	} {
		out.Reset()
		log.Info("x", tt.attrs...)
		if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), "host=h "); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.attrs, got, tt.want)
		}
	}
}
