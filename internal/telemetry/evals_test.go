package telemetry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// results observes results of evals of the pack desk.
func results(m *telemetry.Metrics, list ...machine.EvalResult) {
	m.Observe(&machine.Batch{
		Input: machine.Input{Command: machine.CompleteTurn{}}, Prev: 1, State: &machine.State{PackID: "desk"},
		Records: []machine.Record{{Body: &machine.Evaluated{Results: list}}},
	}, nil)
}

func measured(id, name, kind string, score int64) machine.EvalResult {
	return machine.EvalResult{ID: id, Trigger: "every_turn", Score: score, Passed: score == machine.ScoreFull, Metric: &machine.EvalMetric{Name: name, Kind: kind}}
}

// TestMetricsOfPacks: each kind of metric shows the scores by its declared name. A name of the sidecar's, or one that would make the page
// invalid, is not shown.
func TestMetricsOfPacks(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	ranged := measured("h", "desk_share", "histogram", 500_000)
	ranged.Metric.Ranged, ranged.Metric.Max = true, 2*machine.ScoreFull
	failed := measured("g", "desk_score", "gauge", 0)
	failed.Error = "x"
	results(
		m, measured("g", "desk_score", "gauge", 250_000), failed, measured("c", "desk_judged", "counter", 0), measured("c", "desk_judged", "counter", 1),
		measured("b", "desk_good", "boolean", machine.ScoreFull), ranged,
		measured("x", "pawl_runs_started_total", "gauge", 1), measured("x", "desk_share_count", "gauge", 1), measured("x", "desk_score", "counter", 1),
		measured("x", "a b", "gauge", 1),
	)
	text := page(t, m)
	for _, line := range []string{
		`desk_score{eval="g",pack="desk"} 0.25`, `desk_judged{eval="c",pack="desk"} 2`, `desk_good{eval="b",pack="desk"} 1`,
		`desk_share_bucket{eval="h",pack="desk",le="0.4"} 0`, `desk_share_bucket{eval="h",pack="desk",le="0.6"} 1`, `desk_share_sum{eval="h",pack="desk"} 0.5`,
		`pawl_eval_metrics_dropped_total 4`, `pawl_evals_total{outcome="error",trigger="every_turn"} 1`, `pawl_evals_total{outcome="passed",trigger="every_turn"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in %s", line, text)
		}
	}
}

// TestSeriesOfPacksAreBounded: packs cannot make more than 1000 series.
func TestSeriesOfPacksAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	for i := range 1500 {
		results(m, measured(fmt.Sprint("e", i), fmt.Sprint("desk_", i%50), "gauge", 1))
	}
	text := page(t, m)
	if n := strings.Count(text, `pack="desk"`); n != 1000 || !strings.Contains(text, "pawl_eval_metrics_dropped_total 500\n") {
		t.Errorf("%d series", n)
	}
}
