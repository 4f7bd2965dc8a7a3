package telemetry_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/telemetry"
)

// TestFiguresOfSeveralHouses are one figure: what there is added up, ages, limits and sizes the largest;
// those of a house that is closed are gone, but for what it counted.
func TestFiguresOfSeveralHouses(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	sizes := func(tree int64) telemetry.Sizes { return func() (lsm, log int64) { return tree, 2 } }
	m.Watch(idle{}, sizes(5))
	unwatch := m.Watch(idle{}, sizes(7))
	must := func(lines ...string) {
		t.Helper()
		got := page(t, m)
		for _, line := range lines {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("there is no %s", line)
			}
		}
	}
	must(`pawl_runs{status="RUNNING"} 2`, `pawl_work_unserved 4`, `pawl_watchers 2`, `pawl_watcher_lag 3`, `pawl_store_size_bytes{part="lsm"} 7`,
		`pawl_quota{namespace="default",resource="open_runs"} 5`, `pawl_quota_used{namespace="default",resource="open_runs"} 2`,
		`pawl_quota_refused_total{namespace="default",resource="open_runs"} 4`, `pawl_limit_open{limit="gpt"} 2`)
	unwatch()
	must(`pawl_runs{status="RUNNING"} 1`, `pawl_store_size_bytes{part="lsm"} 5`, `pawl_quota_refused_total{namespace="default",resource="open_runs"} 4`)
}
