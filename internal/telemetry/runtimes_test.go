package telemetry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/telemetry"
)

// figuresOf is a store of a size with a backup of a time, in seconds since 1970.
type figuresOf struct{ tree, backup int64 }

func (f figuresOf) Sizes() (lsm, log int64)                 { return f.tree, 2 }
func (f figuresOf) LastBackup(time.Time) (time.Time, error) { return time.Unix(f.backup, 0), nil }

// TestFiguresOfSeveralHouses are one figure: what there is added up, ages, limits and sizes the largest;
// those of a house that is closed are gone, but for what it counted.
func TestFiguresOfSeveralHouses(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.Watch(idle{}, figuresOf{5, 70})
	unwatch := m.Watch(idle{}, figuresOf{7, 60})
	must := func(lines ...string) {
		t.Helper()
		got := page(t, m)
		for _, line := range lines {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("there is no %s", line)
			}
		}
	}
	must(`pawl_runs{status="RUNNING"} 2`, `pawl_work_unserved 4`, `pawl_watchers 2`, `pawl_watcher_lag 3`, `pawl_store_size_bytes{part="lsm"} 7`, `pawl_backup_last_success_timestamp_seconds 60`, `pawl_subscription_lag{kind="webhook"} 2`,
		`pawl_quota{namespace="default",resource="open_runs"} 5`, `pawl_quota_used{namespace="default",resource="open_runs"} 2`,
		`pawl_quota_refused_total{namespace="default",resource="open_runs"} 4`, `pawl_limit_open{limit="gpt"} 2`)
	unwatch()
	must(`pawl_runs{status="RUNNING"} 1`, `pawl_store_size_bytes{part="lsm"} 5`, `pawl_backup_last_success_timestamp_seconds 70`, `pawl_quota_refused_total{namespace="default",resource="open_runs"} 4`)
}

// TestBackupOfSeveralHouses: a partition without a backup does not hide how old those of the others are.
func TestBackupOfSeveralHouses(t *testing.T) {
	t.Parallel()
	for want, times := range map[string][]int64{"60": {70, 0, 60}, "70": {0, 70}, "50": {50, 0}, "0": {0, 0}} {
		m := telemetry.NewMetrics()
		for _, at := range times {
			m.Watch(idle{}, figuresOf{1, at})
		}
		if got := page(t, m); !strings.Contains(got, "pawl_backup_last_success_timestamp_seconds "+want+"\n") {
			t.Errorf("%v: not %s", times, want)
		}
	}
}
