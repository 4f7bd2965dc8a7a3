package server

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
)

// newLateSchedule makes a store with a schedule for each minute that has fired nothing since a time.
func newLateSchedule(t *testing.T, c config.Config, id string, since time.Time) {
	t.Helper()
	opts, _, err := options{config: c, log: slog.New(slog.DiscardHandler)}.storage()
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Schedules().Put(t.Context(), machine.ScheduleMark{ID: id, Rule: "* * * * * UTC", After: since.UnixNano()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSchedules: at the start, a schedule catches up what it missed. A run says what started it and
// when. A pack that is not registered is reported and tried again. A file that is read again takes
// effect, a faulty one does not.
func TestSchedules(t *testing.T) {
	t.Parallel()
	c := settings(t)
	since := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	newLateSchedule(t, c, "each", since)
	c.Schedules = writeFile(t, "schedules.yaml", `
each: {cron: "* * * * *", pack: self-correcting, catch_up: all, catch_up_most: 3, labels: {team: blue}, principal: clockwork}
none: {cron: "0 0 1 1 *", time_zone: Asia/Tokyo, pack: not-there}
`)
	s := serve(t, c)
	conn := dial(t, s.ready.GRPC)
	runs, control := pawlv1.NewRunServiceClient(conn), pawlv1.NewControlServiceClient(conn)
	stream, err := runs.StreamTransitions(t.Context(), &pawlv1.StreamTransitionsRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	var started []string
	for len(started) < 3 {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if rec := got.GetRecord(); rec.GetTransition() != nil && rec.GetSeq() == 1 {
			started = append(started, got.GetRecord().GetRunId())
		}
	}
	got, err := runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: started[0]})
	labels := got.GetRun().GetLabels()
	if err != nil || labels["pawl.schedule"] != "each" || labels["team"] != "blue" || labels["pawl.scopes"] != "runs:write" {
		t.Errorf("labels %v, %v", labels, err)
	}
	if at, err := time.Parse(time.RFC3339, labels["pawl.instant"]); err != nil || !at.After(since) || at.Second() != 0 {
		t.Errorf("instant %q, %v", labels["pawl.instant"], err)
	}
	fork, err := runs.ForkRun(t.Context(), &pawlv1.ForkRunRequest{RunId: started[0], AtSeq: 1, Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if copied := fork.GetRun().GetLabels(); err != nil || copied["pawl.schedule"] != "" || copied["team"] != "blue" {
		t.Errorf("labels of a copy %v, %v", copied, err)
	}
	records, err := runs.ListTransitions(t.Context(), &pawlv1.ListTransitionsRequest{RunId: started[0]})
	if err != nil || records.GetRecords()[0].GetPrincipal() != "clockwork" {
		t.Errorf("%v, %v", records, err)
	}
	list := &pawlv1.ListSchedulesResponse{}
	// The progress of the schedule is stored after the run.
	for len(list.GetSchedules()) == 0 || list.GetSchedules()[0].GetFired() < 3 {
		if list, err = control.ListSchedules(t.Context(), &pawlv1.ListSchedulesRequest{}); err != nil || len(list.GetSchedules()) != 2 {
			t.Fatalf("%v, %v", list, err)
		}
	}
	each, none := list.GetSchedules()[0], list.GetSchedules()[1]
	if each.GetMissed() < 5 || !slices.Contains(started, each.GetLastRunId()) && each.GetFired() == 3 || len(each.GetNext()) != 5 || each.GetPrincipal() != "clockwork" {
		t.Errorf("told %v", each)
	}
	if none.GetTimeZone() != "Asia/Tokyo" || none.GetFired() != 0 || none.GetLastAt() != nil || len(none.GetNext()) != 5 || none.GetNext()[0].AsTime().Hour() != 15 {
		t.Errorf("told %v", none)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// TestBadSchedules: a schedule that never fires, that names an unknown time zone or that has an
// invalid principal keeps the sidecar from starting. The error has the name of the schedule.
func TestBadSchedules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`a: {cron: "0 0 30 2 *", pack: p}`:                              "a.cron: never fires",
		`a: {cron: "0 0 * * * *", pack: p}`:                             "a.cron: ",
		`a: {cron: "@every 1s", pack: p}`:                               "a.cron: @every",
		`a: {cron: "TZ=UTC", pack: p}`:                                  "a.cron: names a time zone",
		`a: {cron: "@daily", pack: p, time_zone: Mars/Olympus}`:         "a.time_zone",
		`a: {cron: "@daily", pack: p, principal: "bridge>dave"}`:        "a.principal: is a name of the sidecar's own",
		`a: {cron: "@daily", pack: p, principal: pawl}`:                 "a.principal: is a name of the sidecar's own",
		`a: {cron: "@daily", pack: p, scopes: ["runs:read"]}`:           "a.scopes: lacks runs:write",
		`a: {cron: "@daily", pack: p, scopes: ["runs:write", "runs:"]}`: "a.scopes: runs: is none of",
		`a: {cron: "@daily", pack: p, scopes: []}`:                      "a.scopes: lacks runs:write",
	} {
		c := settings(t)
		c.Schedules = writeFile(t, "schedules.yaml", text)
		if _, err := readSchedules(c, []string{"default"}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "schedules.yaml") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	c := settings(t)
	c.Schedules = writeFile(t, "schedules.yaml", `a: {cron: "0 0 30 2 *", pack: p}`)
	if err := Serve(t.Context(), c, os.Stdout, os.Stderr); err == nil || !strings.Contains(err.Error(), "never fires") {
		t.Errorf("served with %v", err)
	}
}

// TestSchedulesAreReadAgain: at SIGHUP a sound file takes effect, and a faulty one changes nothing.
// A pack that is not registered is logged.
func TestSchedulesAreReadAgain(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.Schedules = writeFile(t, "schedules.yaml", "{}")
	s, log := serveLogged(t, c)
	control := pawlv1.NewControlServiceClient(dial(t, s.ready.GRPC))
	list := func() (ids []string) {
		got, err := control.ListSchedules(t.Context(), &pawlv1.ListSchedulesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got.GetSchedules() {
			ids = append(ids, s.GetScheduleId())
		}
		return ids
	}
	again := func(text, says string) {
		if err := errors.Join(os.WriteFile(c.Schedules+".new", []byte(text), 0o600), os.Rename(c.Schedules+".new", c.Schedules)); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		log.await(t, says)
	}
	if got := list(); len(got) != 0 {
		t.Fatalf("schedules %v", got)
	}
	again(`a: {cron: "@yearly", pack: not-there}`, "its pack is not registered")
	for len(list()) != 1 {
		if t.Context().Err() != nil {
			t.Fatal("no schedule comes")
		}
	}
	again(`a: {cron: "@yearly", pack: not-there, paused: true}`, "files reloaded")
	for paused := false; !paused; {
		got, err := control.ListSchedules(t.Context(), &pawlv1.ListSchedulesRequest{})
		if err != nil || len(got.GetSchedules()) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		paused = got.GetSchedules()[0].GetPaused() && len(got.GetSchedules()[0].GetNext()) == 0
	}
	again(`b: {cron: "0 0 30 2 *", pack: not-there}`, "reload failed")
	if got := list(); len(got) != 1 || got[0] != "a" || !strings.Contains(log.String(), "b.cron: never fires") || !strings.Contains(log.String(), "previous settings kept") {
		t.Errorf("schedules %v, log %s", got, log.String())
	}
}
