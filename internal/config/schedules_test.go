package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func schedulesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "schedules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReadSchedules: what is not said has its default, and the order is that of the ids.
func TestReadSchedules(t *testing.T) {
	t.Parallel()
	got, _, err := ReadSchedules(schedulesFile(t, `
weekly: {cron: "@weekly", pack: report}
nightly:
  cron: "30 2 * * *"
  time_zone: Europe/Berlin
  catch_up: all
  catch_up_most: 7
  late_sec: 300
  jitter_sec: 120
  overlap: skip
  namespace: red
  pack: report@1.0.0
  agent: writer
  variables: {topic: sales, days: 7, parts: [a, {b: 1.5}]}
  input: Write the report.
  labels: {team: sales}
  execution: SIDECAR
  principal: reports
  scopes: ["runs:write", "admin"]
  max_wall_time_sec: 3600
`), []string{"default", "red"})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if s := got[0]; s.ID != "nightly" || s.Zone.String() != "Europe/Berlin" || string(s.JSON) != `{"days":7,"parts":["a",{"b":1.5}],"topic":"sales"}` ||
		*s.CatchUpMost != 7 || *s.MissedAfterSec != 300 || s.JitterSec != 120 || s.Principal != "reports" || len(s.Scopes) != 2 || s.MaxWallTimeSec != 3600 {
		t.Errorf("%+v %s", s, s.JSON)
	}
	if s := got[1]; s.ID != "weekly" || s.TimeZone != "UTC" || s.CatchUp != "none" || *s.CatchUpMost != 100 || *s.MissedAfterSec != 60 || s.Overlap != "allow" ||
		s.Namespace != "default" || s.Execution != "WORKERS" || s.Principal != "schedule:weekly" || s.Scopes[0] != "runs:write" || s.JSON != nil {
		t.Errorf("%+v", s)
	}
	if got, _, err := ReadSchedules(schedulesFile(t, "{}"), nil); err != nil || len(got) != 0 {
		t.Errorf("no schedules: %v, %v", got, err)
	}
}

// TestBadSchedules: each fault names the file, the schedule and the field.
func TestBadSchedules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: {cron: x, pack: p, time_zone: Europe/Bärlin}": `a.time_zone: "Europe/Bärlin" is no zone`,
		"a: {cron: x, pack: p, time_zone: Local}":         "a.time_zone",
		"a: {cron: x}":                          "a.pack: is required",
		"a:":                                    "a.pack: is required",
		"a: {cron: x, pack: p, catch_up: some}": `a.catch_up: "some" is none of none, last, all`,
		"a: {cron: x, pack: p, catch_up_most: 0}":      "a.catch_up_most: is 0, want 1 to 1000",
		"a: {cron: x, pack: p, late_sec: -1}":          "a.late_sec: is -1, want 1 to 86400",
		"a: {cron: x, pack: p, jitter_sec: 86401}":     "a.jitter_sec: is 86401, want 0 to 86400",
		"a: {cron: x, pack: p, overlap: wait}":         "a.overlap",
		"a: {cron: x, pack: p, execution: CALLER}":     `a.execution: "CALLER" is none of WORKERS, SIDECAR`,
		"a: {cron: x, pack: p, namespace: blue}":       `a.namespace: "blue" is none of default`,
		"a: {cron: x, pack: p, labels: {pawl.x: y}}":   "a.labels",
		"a: {cron: x, pack: p, principal: \"a b\"}":    "a.principal",
		"a: {cron: x, pack: p, max_wall_time_sec: -1}": "a.max_wall_time_sec",
		"\"a b\": {cron: x, pack: p}":                  `"a b" is no id of a schedule`,
		"a: {cron: x, pack: p, crom: y}":               "crom",
		"a: {cron: x, pack: p}\na: {cron: y, pack: p}": "schedules.yaml",
		"- a":                        "schedules.yaml",
		"a: {cron: ":                 "schedules.yaml",
		"\n":                         "is empty",
		"a: {cron: [], pack: p}":     "schedules.yaml",
		"a: {late_sec: 1e99}":        "schedules.yaml",
		strings.Repeat("x: {}\n", 2): "schedules.yaml",
	} {
		got, _, err := ReadSchedules(schedulesFile(t, text), []string{"default"})
		if faults, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), want) || len(faults.Faults) == 0 {
			t.Errorf("%q: %+v, %v, want %q", text, got, err, want)
		}
	}
	if _, _, err := ReadSchedules(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("a file that is not there")
	}
}
