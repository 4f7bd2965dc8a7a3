package telemetry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/telemetry"
)

// TestRefusalsAreBounded: the metric of refusals has a maximum number of series, for any number of different
// reasons.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	for i := range 5000 {
		m.Refused("pawl.v1.RunService/GetRun", fmt.Sprintf("REASON_%d", i))
	}
	shown := page(t, m)
	if n := strings.Count(shown, "\npawl_calls_refused_total{"); n != 1001 {
		t.Errorf("%d series, want 1000 and one for the rest", n)
	}
	if !strings.Contains(shown, `pawl_calls_refused_total{method="other",reason="other"} 4000`) {
		t.Error("what is beyond the bound is not counted")
	}
	if !strings.Contains(shown, `pawl_step_answers_ignored_total{disposition="stale"} 0`) {
		t.Error("ignored answers are absent before the first one")
	}
}
