package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// flatKeys are the keys that scripts read at the top of the JSON document.
var flatKeys = strings.Fields(`
fsync_p50_us echo_rps echo_p50_us naive_tps bare_tps_256 bare_emit_tps_64 bare_emit_p50_us_1
engine_tps_1 engine_tps_16 engine_tps_64 engine_tps_256 emit_tps_1 emit_tps_16 emit_tps_64 emit_tps_256
emit_p50_us_1 emit_p50_us_64 emit_p99_us_64 keys_per_transition flat_ratio watcher_ratio telemetry_ratio fanout_ratio
fanout_lag_p99_ms restart_ready_ms restart_rss_mb overdue_ready_ms overdue_ended_tps storage_ratio
million_ready_ms million_rss_mb million_emit_ratio list_p99_ms model_step_p50_us model_flat_ratio model_bytes_ratio
idle_ready_ms idle_rss_mb binary_mb worker_turns_tps_go worker_turn_p50_us_go worker_turn_p99_us_go
worker_emit_tps worker_emit_p50_us reassign_ms snapshot_p50_us snapshot_us_per_mib
a2a_emit_p50_us a2a_send_p50_us a2a_send_tps_64 delegate_p50_us delegate_local_p50_us mcp_bare_p50_us mcp_step_p50_us mcp_overhead_us`)

// growthKeys are differences, which may be below zero where little is measured.
var growthKeys = []string{"idle_workers_rss_mb", "a2a_subscribers_rss_mb"}

// foreignKeys may be null: those workers and drivers need not be installed.
var foreignKeys = strings.Fields(`
worker_turns_tps_python worker_turn_p50_us_python worker_turn_p99_us_python
worker_turns_tps_typescript worker_turn_p50_us_typescript worker_turn_p99_us_typescript
drive_python_tps_64 drive_python_unary_tps_64 drive_typescript_tps_64 drive_typescript_unary_tps_64`)

// ratioKeys compare two of those.
var ratioKeys = strings.Fields(`drive_python_ratio drive_typescript_ratio`)

// document marshals a report and reads it back.
func document(t *testing.T, r *Report) map[string]any {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// sampled gives every metric the same rounds.
func sampled(rounds ...float64) Samples {
	s := Samples{}
	for _, f := range figures() {
		s[f.key] = rounds
	}
	return s
}

func TestReportHasEveryKey(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*Report{"measured": newReport(sampled(2, 1, 3)), "empty": newReport(Samples{})} {
		doc := document(t, r)
		for _, key := range slices.Concat(flatKeys, growthKeys, foreignKeys) {
			value, ok := doc[key]
			if !ok {
				t.Errorf("%s: no key %s", name, key)
			}
			if want := any(2.0); name == "measured" && value != want {
				t.Errorf("%s: %s is %v, want the median %v", name, key, value, want)
			}
			if name == "empty" && value != nil {
				t.Errorf("%s: %s is %v, want null", name, key, value)
			}
		}
		for _, key := range ratioKeys {
			if value, ok := doc[key]; !ok || name == "measured" && value != any(1.0) {
				t.Errorf("%s: %s is %v, want the quotient 1", name, key, value)
			}
		}
	}
}

func TestReportJudgesEveryBar(t *testing.T) {
	t.Parallel()
	bars := map[string]bool{}
	for _, f := range newReport(sampled(1)).Figures {
		if (f.Bar == nil) != (f.Verdict == "") {
			t.Errorf("%s: bar %v, verdict %q", f.Key, f.Bar, f.Verdict)
		}
		bars[f.Key] = f.Bar != nil
	}
	for key := range strings.FieldsSeq(`engine_vs_bare engine_vs_naive emit_vs_bare emit_vs_echo emit_p50_vs_bare
		emit_p50_vs_floor emit_p99_vs_p50 keys_per_transition flat_ratio watcher_ratio telemetry_ratio fanout_ratio fanout_lag_p99_ms
		restart_ready_ms restart_rss_mb overdue_ready_ms overdue_ended_tps overdue_live_p99_ms storage_ratio
		million_ready_ms million_rss_mb million_emit_ratio list_p99_ms model_flat_ratio model_bytes_ratio
idle_ready_ms idle_rss_mb binary_mb`) {
		if !bars[key] {
			t.Errorf("%s has no bar", key)
		}
	}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	r := newReport(Samples{
		"engine_tps_256": {80, 8, 800}, "bare_tps_256": {100, 10, 1000},
		"emit_p50_us_1": {300, 360}, "echo_p50_us": {100, 60}, "fsync_p50_us": {100, 120},
	})
	got := map[string]stat.Stat{}
	for _, f := range r.Figures {
		got[f.Key] = f.Stat
	}
	if s := got["engine_vs_bare"]; s.Median != 0.8 || s.Spread > 1e-9 {
		t.Errorf("engine against bare: %+v", s)
	}
	if s := got["emit_p50_vs_floor"]; math.Abs(s.Rounds[0]-1.5) > 1e-9 || math.Abs(s.Rounds[1]-2) > 1e-9 {
		t.Errorf("against the floor: %+v", s)
	}
	if s := got["emit_p50_vs_bare"]; !math.IsNaN(s.Median) {
		t.Errorf("a ratio with a missing half: %+v", s)
	}
}

func TestTableNamesEveryFigureAndFault(t *testing.T) {
	t.Parallel()
	r := newReport(sampled(7, 8, 9))
	r.Quick, r.Faults, r.Sizes = true, []string{"flat: disk full"}, QuickSizes()
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, f := range figures() {
		if !strings.Contains(out.String(), f.title) {
			t.Errorf("no line %q", f.title)
		}
	}
	for _, want := range []string{"not measured: flat: disk full", "quick", "3 rounds", "±1.00"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
