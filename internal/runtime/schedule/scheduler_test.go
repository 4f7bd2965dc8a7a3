package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// errCrash is the error that a process gets when it is killed.
var errCrash = errors.New("the process was killed")

// world has what outlives a process: the clock, the runs by the ids that started them, and the
// marks. It is the engine, the store and the clock of schedulers.
type world struct {
	mu       sync.Mutex
	now      time.Time
	marks    map[string]machine.ScheduleMark
	started  map[string]string // principal and id: run
	ended    map[string]bool
	order    []string
	doubled  []string
	outcomes map[Outcome]int
	// refuse makes StartRun fail. crash is called before and after each write, and says
	// whether the process dies there.
	refuse func(id string) error
	crash  func() bool
	wake   chan time.Time
}

func newWorld(now time.Time) *world {
	return &world{now: now, marks: map[string]machine.ScheduleMark{}, started: map[string]string{}, ended: map[string]bool{}, outcomes: map[Outcome]int{}}
}

func (w *world) Now() time.Time                       { return w.now }
func (w *world) Elapsed() time.Duration               { return time.Duration(w.now.UnixNano()) }
func (w *world) After(time.Duration) <-chan time.Time { return w.wake }

func (w *world) Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error) {
	return 0, runtime.PolicyError(policy.Require(call.Principal, scopes))
}

func (w *world) broken() error {
	if w.crash != nil && w.crash() {
		return errCrash
	}
	return nil
}

func (w *world) StartRun(_ context.Context, req runtime.StartRequest) (runtime.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(req.RequestID); err != nil {
			return runtime.Answer{}, err
		}
	}
	if err := w.broken(); err != nil {
		return runtime.Answer{}, err
	}
	key := req.Principal.Name() + " " + req.RequestID
	if run, ok := w.started[key]; ok {
		return runtime.Answer{RunID: run, Duplicate: true}, w.broken()
	}
	for other := range w.started {
		if strings.HasSuffix(other, " "+req.RequestID) {
			w.doubled = append(w.doubled, req.RequestID)
		}
	}
	run := fmt.Sprintf("run-%d", len(w.order))
	w.started[key], w.order = run, append(w.order, req.RequestID)
	return runtime.Answer{RunID: run}, w.broken()
}

func (w *world) Head(_ context.Context, key runtime.RunKey) (*machine.State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended[key.ID] {
		return &machine.State{Status: machine.Completed}, nil
	}
	return &machine.State{Status: machine.Running}, nil
}

func (w *world) FindRequestID(_ context.Context, _ uint32, key machine.Dedupe) (machine.Dedupe, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run, ok := w.started[key.Principal+" "+key.ID]
	key.RunID = run
	return key, ok, nil
}

func (w *world) Marks(context.Context) ([]machine.ScheduleMark, error) {
	return slices.Collect(maps.Values(w.marks)), nil
}

func (w *world) Put(_ context.Context, m machine.ScheduleMark) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.broken(); err != nil {
		return err
	}
	w.marks[m.ID] = m
	return w.broken()
}

func (w *world) Drop(_ context.Context, m machine.ScheduleMark) error {
	delete(w.marks, m.ID)
	return nil
}

// open starts a process.
func (w *world) open(t *testing.T, schedules ...*Schedule) *Scheduler {
	t.Helper()
	r, err := New(Config{Engine: w, Clock: w, Store: w, Used: w, OnResult: func(told Result) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.outcomes[told.Outcome] += told.N
	}})
	if err != nil {
		t.Fatal(err)
	}
	for err = errCrash; errors.Is(err, errCrash); {
		err = r.Replace(t.Context(), schedules)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pass runs a scheduler until a time of the clock, and advances the clock by the waits
// that the scheduler asks for.
func (w *world) pass(r *Scheduler, until time.Time) {
	for !w.now.After(until) {
		wait := r.round(context.Background())
		w.now = w.now.Add(max(wait, time.Second))
	}
}

func nightly(t *testing.T, cron, zone string) *Schedule {
	t.Helper()
	return &Schedule{
		Namespace: "default", ID: "nightly", Rule: parse(t, cron, zone), Most: 100, StartingDeadline: time.Minute,
		Start: runtime.StartRequest{Call: runtime.Call{Principal: runtime.Principal{Subject: "schedule:nightly", Scopes: runtime.ScopeRunsWrite}}, Pack: "p"},
	}
}

// instants returns the scheduled times of the runs that were started, in their order.
func (w *world) instants(t *testing.T, zone *time.Location) (out []string) {
	t.Helper()
	for _, id := range w.order {
		_, text, _ := strings.Cut(strings.TrimPrefix(id, Prefix), "/")
		out = append(out, at(t, text).In(zone).Format("01-02 15:04"))
	}
	return out
}

// TestYear: over a year with both clock changes, each night has one run.
func TestYear(t *testing.T) {
	t.Parallel()
	for _, jitter := range []time.Duration{0, 20 * time.Minute} {
		s := nightly(t, "30 2 * * *", "Europe/Berlin")
		s.Jitter = jitter
		begin := at(t, "2026-01-01T12:00:00Z")
		w := newWorld(begin)
		w.pass(w.open(t, s), begin.AddDate(1, 0, 0))
		if len(w.order) != 365 || len(w.doubled) != 0 || w.outcomes[Fired] != 365 || len(w.outcomes) != 1 {
			t.Fatalf("%d runs, doubled %v, told %v", len(w.order), w.doubled, w.outcomes)
		}
		got := w.instants(t, s.Rule.zone)
		if !slices.Contains(got, "03-29 03:00") || !slices.Contains(got, "10-25 02:30") || !slices.IsSorted(got[:364]) {
			t.Errorf("instants %v", got)
		}
	}
}

// TestCatchUp: after a restart, the policy decides about the instants that passed while no scheduler ran.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		catch CatchUp
		most  int
		down  time.Duration
		want  string
		lost  int
	}{
		{"none gives up", CatchNone, 100, 4*time.Hour + 30*time.Minute, "01:00 06:00", 4},
		{"none fires what is late by less", CatchNone, 100, time.Hour + 30*time.Second, "01:00 02:00 03:00 04:00 05:00 06:00", 0},
		{"last fires one", CatchLast, 100, 4*time.Hour + 30*time.Minute, "01:00 05:00 06:00", 3},
		{"last fires no other beside one that is due", CatchLast, 100, 4*time.Hour + 30*time.Second, "01:00 05:00 06:00", 3},
		{"all fires all", CatchAll, 100, 4*time.Hour + 30*time.Minute, "01:00 02:00 03:00 04:00 05:00 06:00", 0},
		{"all has a bound", CatchAll, 2, 4*time.Hour + 30*time.Minute, "01:00 04:00 05:00 06:00", 2},
		{"what is due is beside the bound", CatchAll, 2, 4*time.Hour + 30*time.Second, "01:00 03:00 04:00 05:00 06:00", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := nightly(t, "0 * * * *", "UTC")
			s.Catch, s.Most = tt.catch, tt.most
			begin := at(t, "2026-06-01T00:30:00Z")
			w := newWorld(begin)
			w.pass(w.open(t, s), at(t, "2026-06-01T01:00:00Z"))
			w.now = at(t, "2026-06-01T01:00:00Z").Add(tt.down)
			w.pass(w.open(t, s), at(t, "2026-06-01T06:00:30Z"))
			var got []string
			for _, one := range w.instants(t, time.UTC) {
				got = append(got, one[6:])
			}
			if strings.Join(got, " ") != tt.want || w.outcomes[Missed] != tt.lost || w.marks["nightly"].Missed != uint64(tt.lost) {
				t.Errorf("fired %v, missed %d (%+v), want %s and %d", got, w.outcomes[Missed], w.marks["nightly"], tt.want, tt.lost)
			}
		})
	}
}

// TestPause: a paused schedule fires nothing, also after restarts. When it continues, its policy decides about
// the instants that passed meanwhile. A schedule that continues with another rule begins at the present time.
func TestPause(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		catch CatchUp
		until string
		cron  string
		want  string
		lost  int
	}{
		"none":                      {CatchNone, "04:30", "0 * * * *", "01:00 05:00 06:00", 3},
		"none, and one just is due": {CatchNone, "04:00", "0 * * * *", "01:00 04:00 05:00 06:00", 2},
		"last":                      {CatchLast, "04:30", "0 * * * *", "01:00 04:00 05:00 06:00", 2},
		"all":                       {CatchAll, "04:30", "0 * * * *", "01:00 02:00 03:00 04:00 05:00 06:00", 0},
		"another rule":              {CatchAll, "04:30", "*/30 * * * *", "01:00 05:00 05:30 06:00", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := nightly(t, "0 * * * *", "UTC")
			on.Catch = tt.catch
			off := *on
			off.Paused = true
			w := newWorld(at(t, "2026-06-01T00:30:00Z"))
			r := w.open(t, on)
			w.pass(r, at(t, "2026-06-01T01:00:00Z"))
			if err := r.Replace(t.Context(), []*Schedule{&off}); err != nil {
				t.Fatal(err)
			}
			w.pass(r, at(t, "2026-06-01T02:30:00Z"))
			r = w.open(t, &off)
			w.pass(r, at(t, "2026-06-01T"+tt.until+":00Z").Add(-time.Minute))
			shown, err := r.ListSchedules(runtime.Call{Principal: runtime.Principal{Scopes: runtime.ScopeRunsRead}})
			if err != nil || len(shown) != 1 || !shown[0].Paused || shown[0].Next != nil || shown[0].Mark.Fired != 1 || len(w.order) != 1 {
				t.Fatalf("paused: %+v, %v, runs %v", shown, err, w.order)
			}
			w.now = at(t, "2026-06-01T"+tt.until+":00Z")
			again := *on
			again.Rule = parse(t, tt.cron, "UTC")
			if err := r.Replace(t.Context(), []*Schedule{&again}); err != nil {
				t.Fatal(err)
			}
			w.pass(r, at(t, "2026-06-01T06:00:30Z"))
			var got []string
			for _, one := range w.instants(t, time.UTC) {
				got = append(got, one[6:])
			}
			if strings.Join(got, " ") != tt.want || w.outcomes[Missed] != tt.lost || w.marks["nightly"].Missed != uint64(tt.lost) || len(w.doubled) > 0 {
				t.Errorf("fired %v, missed %d, want %s and %d", got, w.outcomes[Missed], tt.want, tt.lost)
			}
		})
	}
}

// TestCrashes: with catch_up all, no run is lost or doubled, at any write at which the process dies
// and for any principal that starts the runs after it.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		begin := at(t, "2026-06-01T00:30:00Z")
		w := newWorld(begin)
		w.crash = func() bool { return rnd.IntN(4) == 0 }
		for w.now.Before(begin.Add(24 * time.Hour)) {
			s := nightly(t, "*/20 * * * *", "UTC")
			s.Catch, s.Start.Principal.Subject = CatchAll, fmt.Sprintf("p%d", rnd.IntN(3))
			s.Jitter = time.Duration(rnd.IntN(2)) * time.Hour
			w.pass(w.open(t, s), w.now.Add(time.Duration(rnd.IntN(90))*time.Minute))
			w.now = w.now.Add(time.Duration(rnd.IntN(60)) * time.Minute)
		}
		w.crash = nil
		s := nightly(t, "*/20 * * * *", "UTC")
		s.Catch = CatchAll
		w.pass(w.open(t, s), w.now.Add(30*time.Minute))
		if len(w.doubled) > 0 {
			t.Fatalf("seed %d: doubled %v", seed, w.doubled)
		}
		at := begin
		for i, id := range w.order {
			if at = s.Rule.Next(at); id != Prefix+"nightly/"+at.Format(time.RFC3339) {
				t.Fatalf("seed %d: run %d is %s, want %v", seed, i, id, at)
			}
		}
		if next := s.Rule.Next(at); next.Before(w.now.Add(-time.Minute)) || w.marks["nightly"].Fired != uint64(len(w.order)) {
			t.Fatalf("seed %d: %d runs, %+v", seed, len(w.order), w.marks["nightly"])
		}
	}
}

// TestRefused: a start that fails is tried again at growing intervals, and is shown. After the time
// that the policy allows, the instant counts as missed.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := nightly(t, "0 * * * *", "UTC")
	w := newWorld(at(t, "2026-06-01T00:59:00Z"))
	missing := &machine.Error{Code: machine.CodeNotFound, Reason: "PACK_NOT_FOUND"}
	w.refuse = func(string) error { return missing }
	r := w.open(t, s)
	w.pass(r, at(t, "2026-06-01T01:00:40Z"))
	shown, err := r.ListSchedules(runtime.Call{Principal: runtime.Principal{Scopes: runtime.ScopeRunsRead}})
	if err != nil || len(shown) != 1 || shown[0].Fault == nil || !errors.Is(shown[0].Fault.Err, missing) || shown[0].Fault.Attempts < 3 ||
		!shown[0].Fault.Instant.Equal(at(t, "2026-06-01T01:00:00Z")) || len(shown[0].Next) != upcoming || shown[0].Next[0].Hour() != 2 {
		t.Fatalf("shown %+v, %v", shown, err)
	}
	if w.outcomes[Failed] > 7 {
		t.Errorf("%d attempts in 40 s", w.outcomes[Failed])
	}
	w.pass(r, at(t, "2026-06-01T01:03:00Z"))
	if w.outcomes[Missed] != 1 || len(w.order) != 0 {
		t.Errorf("told %v, runs %v", w.outcomes, w.order)
	}
	w.refuse = nil
	w.pass(r, at(t, "2026-06-01T02:00:10Z"))
	shown, err = r.ListSchedules(runtime.Call{Principal: runtime.Principal{Scopes: runtime.ScopeRunsRead}})
	if err != nil || len(w.order) != 1 || shown[0].Fault != nil || shown[0].Mark.Fired != 1 || shown[0].Mark.RunID != "run-0" {
		t.Errorf("shown %+v, %v; runs %v", shown, err, w.order)
	}
	if _, err := r.ListSchedules(runtime.Call{}); err == nil {
		t.Error("who may not read runs is shown schedules")
	}
}

// TestSkip: an instant is skipped while the run before is in progress.
func TestSkip(t *testing.T) {
	t.Parallel()
	s := nightly(t, "0 * * * *", "UTC")
	s.Skip = true
	w := newWorld(at(t, "2026-06-01T00:30:00Z"))
	r := w.open(t, s)
	w.pass(r, at(t, "2026-06-01T03:30:00Z"))
	if len(w.order) != 1 || w.outcomes[Skipped] != 2 {
		t.Fatalf("runs %v, told %v", w.order, w.outcomes)
	}
	w.ended["run-0"] = true
	w.pass(r, at(t, "2026-06-01T04:30:00Z"))
	if len(w.order) != 2 || w.marks["nightly"].Skipped != 2 {
		t.Errorf("runs %v, %+v", w.order, w.marks)
	}
}

// TestReplace: a schedule with another rule begins at the present time, one with the same rule
// continues, and the mark of one that was removed is deleted.
func TestReplace(t *testing.T) {
	t.Parallel()
	hourly := func() *Schedule {
		s := nightly(t, "0 * * * *", "UTC")
		s.Catch = CatchAll
		return s
	}
	w := newWorld(at(t, "2026-06-01T00:30:00Z"))
	w.open(t, hourly())
	w.now = at(t, "2026-06-01T05:30:00Z")
	other := nightly(t, "30 * * * *", "UTC")
	other.Catch = CatchAll
	w.pass(w.open(t, other), at(t, "2026-06-01T06:45:00Z"))
	if got := w.instants(t, time.UTC); len(got) != 1 || got[0] != "06-01 06:30" {
		t.Fatalf("another rule fired %v", got)
	}
	w.open(t)
	if len(w.marks) != 0 {
		t.Fatalf("left %v", w.marks)
	}
	w.pass(w.open(t, other), at(t, "2026-06-01T06:50:00Z"))
	if len(w.order) != 1 {
		t.Errorf("fired %v", w.order)
	}
}

// TestClock: after the clock is set back, nothing fires twice. After it is set forward, instants are missed.
func TestClock(t *testing.T) {
	t.Parallel()
	s := nightly(t, "0 * * * *", "UTC")
	w := newWorld(at(t, "2026-06-01T00:30:00Z"))
	r := w.open(t, s)
	w.pass(r, at(t, "2026-06-01T02:10:00Z"))
	w.now = at(t, "2026-06-01T00:50:00Z")
	w.pass(r, at(t, "2026-06-01T03:10:00Z"))
	if len(w.order) != 3 || len(w.doubled) != 0 {
		t.Fatalf("runs %v", w.order)
	}
	w.now = at(t, "2026-06-03T00:10:00Z")
	w.pass(r, at(t, "2026-06-03T01:10:00Z"))
	if len(w.order) != 4 || w.outcomes[Missed] != 45 {
		t.Errorf("runs %v, told %v", w.order, w.outcomes)
	}
}

// TestRun: the loop receives another table, wakes up and ends without an error.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(at(t, "2026-06-01T00:59:59Z"))
	w.wake = make(chan time.Time)
	r := w.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	if err := r.Replace(ctx, []*Schedule{nightly(t, "0 * * * *", "UTC")}); err != nil {
		t.Fatal(err)
	}
	w.wake <- time.Time{}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestNoStore: without a store there are no schedules, and a table with schedules is refused.
func TestNoStore(t *testing.T) {
	t.Parallel()
	w := newWorld(time.Unix(0, 0))
	if _, err := New(Config{}); err == nil {
		t.Error("made without a way")
	}
	r, err := New(Config{Engine: w, Clock: w})
	if err != nil || r.Replace(t.Context(), nil) != nil {
		t.Fatal(err)
	}
	if err := r.Replace(t.Context(), []*Schedule{nightly(t, "0 * * * *", "UTC")}); err == nil {
		t.Error("a schedule that nobody keeps")
	}
}

// TestNoSpinWhileDraining: while the sidecar shuts down it starts no run, and the loop waits before the next attempt.
// This is not a failure of the schedule.
func TestNoSpinWhileDraining(t *testing.T) {
	t.Parallel()
	begin := at(t, "2026-01-01T00:00:50Z")
	w := newWorld(begin)
	r := w.open(t, nightly(t, "* * * * *", "UTC"))
	w.now = w.now.Add(r.round(t.Context()))
	w.refuse = func(string) error { return &machine.Error{Code: machine.CodeUnavailable, Reason: draining} }
	for range 2 {
		wait := r.round(t.Context())
		if wait != firstPause || len(w.outcomes) != 0 {
			t.Fatalf("the next round is in %v, want %v; told %v", wait, firstPause, w.outcomes)
		}
		w.now = w.now.Add(wait)
	}
	w.refuse = nil
	if r.round(t.Context()); len(w.order) != 1 {
		t.Errorf("runs %v", w.order)
	}
}
