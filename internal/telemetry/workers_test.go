package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// TestWorkerFailed tests the line and the metric of a turn and a step that a worker failed or lost.
func TestWorkerFailed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, m := telemetry.NewRunLog(slog.New(slog.NewTextHandler(&out, nil))), telemetry.NewMetrics()
	for _, f := range []dispatch.Failure{
		{Worker: "w", RunID: "R", Class: machine.WorkClass{Kind: machine.TurnWork, Prompt: "desk"}, Attempt: 2, Cause: dispatch.FailureAnswered, Error: machine.Fault{Code: "BOOM", Message: "secret"}},
		{Worker: "w", RunID: "R", Class: machine.WorkClass{Kind: machine.StepWork, Tool: "refund"}, Attempt: 1, Cause: dispatch.FailureExpired},
	} {
		log.WorkerFailed("shop", &f)
		m.WorkerFailed(&f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
	for _, want := range []string{
		`level=INFO msg="worker failed or lost its work" prompt=desk worker_id=w namespace=shop run_id=R pack="" attempt=2 cause=failed code=BOOM`,
		`level=WARN msg="worker failed or lost its work" tool=refund worker_id=w namespace=shop run_id=R pack="" attempt=1 cause=expired`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %s in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Error("the message of the error is logged")
	}
	text := page(t, m)
	for _, want := range []string{
		`pawl_worker_failures_total{cause="failed",kind="turn"} 1`, `pawl_worker_failures_total{cause="expired",kind="step"} 1`,
		`pawl_worker_failures_total{cause="disconnected",kind="turn"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}
