package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
)

// Schedules of each minute that were down for as many.
const (
	downSchedules = 12
	downMinutes   = 30
)

// TestScheduleKills: schedules of each minute catch up an hour while the process is killed again and
// again: each instant has one run, and none is missed.
func TestScheduleKills(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 5*time.Minute)
	file := filepath.Join(t.TempDir(), "schedules.yaml")
	s := newSidecar(t, "--pack", "testdata/crash.pack.yaml", "--allow-tool", "*", "--schedules", file)
	since := time.Now().Add(-downMinutes * time.Minute).Truncate(time.Minute)
	var text strings.Builder
	disk, err := store.Open(store.Options{Dir: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range downSchedules {
		fmt.Fprintf(&text, "s%d: {cron: \"* * * * *\", pack: crash, variables: {topic: t}, catch_up: all, catch_up_most: 1000, labels: {of: schedules}}\n", i)
		if err := disk.Schedules().Put(ctx, machine.ScheduleMark{ID: fmt.Sprintf("s%d", i), Rule: "* * * * * UTC", After: since.UnixNano()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	s.start()
	control := pawlv1.NewControlServiceClient(s.dial())
	for range 12 {
		fires(ctx, t, control, countFired(ctx, t, control)+1+rng.IntN(downSchedules*downMinutes/16))
		s.kill()
		s.start()
	}
	fires(ctx, t, control, downSchedules*downMinutes)
	once(t, s, since)
	if shown := shownSchedules(t, s); len(shown.Schedules) != downSchedules || shown.Schedules[0].Fired < downMinutes {
		t.Errorf("pawl schedules shows %+v", shown)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr.String())
	}
	s.check()
}

// fires returns when the schedules say that they fired so many instants, or all.
func fires(ctx context.Context, t *testing.T, control pawlv1.ControlServiceClient, n int) {
	t.Helper()
	for n = min(n, downSchedules*downMinutes); countFired(ctx, t, control) < n; {
	}
}

// countFired counts what the schedules say that they fired.
func countFired(ctx context.Context, t *testing.T, control pawlv1.ControlServiceClient) (n int) {
	t.Helper()
	got, err := control.ListSchedules(ctx, &pawlv1.ListSchedulesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range got.GetSchedules() {
		n += int(one.GetFired())
		if one.GetMissed() != 0 || one.GetFault() != nil {
			t.Fatalf("told %v", one)
		}
	}
	return n
}

// once checks that each schedule has a run of each minute since, and no two of one.
func once(t *testing.T, s *sidecar, since time.Time) {
	t.Helper()
	instants := map[string][]string{}
	req := &pawlv1.ListRunsRequest{PageSize: 1000, Filter: &pawlv1.RunFilter{Labels: map[string]string{"of": "schedules"}}}
	for {
		page, err := s.runs().ListRuns(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range page.GetRuns() {
			id := run.GetLabels()["pawl.schedule"]
			instants[id] = append(instants[id], run.GetLabels()["pawl.instant"])
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	for i := range downSchedules {
		id := fmt.Sprintf("s%d", i)
		got := instants[id]
		slices.Sort(got)
		for n, text := range got {
			if want := since.Add(time.Duration(n+1) * time.Minute).UTC().Format(time.RFC3339); text != want {
				t.Fatalf("%s: instant %d is %s, want %s", id, n, text, want)
			}
		}
		if len(got) < downMinutes {
			t.Errorf("%s has %d runs", id, len(got))
		}
	}
}

type listedSchedules struct {
	Schedules []struct {
		Fired int `json:"fired"`
	} `json:"schedules"`
}

// shownSchedules is what the command prints.
func shownSchedules(t *testing.T, s *sidecar) (shown listedSchedules) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary(t), "schedules", "--addr", "unix:"+s.socket, "-o", "json").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := json.Unmarshal(out, &shown); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return shown
}
