package retention

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// shelf is the engine, the store, the list and the archive of runs that have no content.
type shelf struct {
	runs        []*machine.State
	bytes       int64
	unconfirmed map[string]bool
	deleted     []string
	reasons     []string
	// fault is called before each step (list, bytes, export, delete, room), and returns the error of the step.
	fault    func(step, run string) error
	health   error
	reported []RunOutcome
	// alreadyDeleted says that a run was deleted by another caller before.
	alreadyDeleted bool
}

func (s *shelf) Find(runtime.RunRef) (runtime.RunKey, error)   { return runtime.RunKey{}, nil }
func (s *shelf) Evict(_ runtime.RunKey, do func() error) error { return do() }
func (s *shelf) DoInFlight(do func() error) error              { return do() }
func (s *shelf) Health() error                                 { return s.health }
func (s *shelf) NamespaceNumbers() []uint32                    { return []uint32{1, 0} }
func (s *shelf) NamespaceName(n uint32) string                 { return []string{"default", "red"}[n] }
func (s *shelf) injectedFault(step, run string) error {
	if s.fault == nil {
		return nil
	}
	return s.fault(step, run)
}

func (s *shelf) Head(_ context.Context, key runtime.RunKey) (*machine.State, error) {
	for _, st := range s.runs {
		if st.RunID == key.ID && st.Namespace == key.Namespace {
			return st, nil
		}
	}
	return nil, &machine.Error{Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND"}
}

// ListRuns returns pages of two runs, newest first.
func (s *shelf) ListRuns(_ context.Context, ns uint32, f machine.RunFilter, after string, _ int) (page []*machine.State, next string, err error) {
	if err := s.injectedFault("list", ""); err != nil {
		return nil, "", err
	}
	for _, st := range slices.Backward(s.runs) {
		if st.Namespace != ns || !slices.Contains(f.Status, st.Status) || after != "" && st.RunID >= after {
			continue
		}
		if len(page) == 2 {
			return page, page[1].RunID, nil
		}
		page = append(page, st)
	}
	return page, "", nil
}

func (s *shelf) RunBytes(_ context.Context, _ uint32, run string) (int64, error) {
	return s.bytes, s.injectedFault("bytes", run)
}

func (s *shelf) HasUnconfirmedCancel(_ context.Context, _ uint32, run string) (bool, error) {
	return s.unconfirmed[run], nil
}

func (s *shelf) CheckRemovalSpace() error { return s.injectedFault("room", "") }

func (s *shelf) ForgetDeleted(_ context.Context, _ uint32, before int64) (int, error) {
	if len(s.deleted) > 0 && before > 0 {
		n := len(s.deleted)
		s.deleted = nil
		return n, nil
	}
	return 0, nil
}

func (s *shelf) DeleteRun(_ context.Context, ns uint32, run string, asked machine.Deleted) (machine.Deleted, bool, error) {
	if err := s.injectedFault("delete", run); err != nil {
		return machine.Deleted{}, false, err
	}
	s.runs = slices.DeleteFunc(s.runs, func(st *machine.State) bool { return st.RunID == run && st.Namespace == ns })
	s.deleted, s.reasons = append(s.deleted, run), append(s.reasons, asked.By+"/"+asked.Why)
	return machine.Deleted{RunID: run}, s.alreadyDeleted, nil
}

func (s *shelf) Export(_ context.Context, _ uint32, run string, out io.Writer) error {
	if _, err := io.WriteString(out, "the beginning of "+run); err != nil {
		return err
	}
	if err := s.injectedFault("export", run); err != nil {
		return err
	}
	_, err := io.WriteString(out, ", and its end")
	return err
}

// stoppedClock is a clock that stands still.
type stoppedClock struct{ now time.Time }

func (c stoppedClock) Now() time.Time                       { return c.now }
func (c stoppedClock) Elapsed() time.Duration               { return 0 }
func (c stoppedClock) After(time.Duration) <-chan time.Time { return nil }

const day = 24 * time.Hour

// newService returns a service that applies the rules to the runs of a shelf. Its clock is 100
// days after the beginning.
func (s *shelf) newService(t *testing.T, p Policy) *Service {
	t.Helper()
	p.OnResult = func(taken RunOutcome) { s.reported = append(s.reported, taken) }
	r, err := New(Config{
		Engine: s, Clock: stoppedClock{time.Unix(0, 0).Add(100 * day)}, Store: s, Runs: s, Archive: s, Policy: p, NotifiesAgents: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run adds a run that ended on a day.
func (s *shelf) run(id string, ended int, change ...func(*machine.State)) {
	st := &machine.State{RunID: id, Status: machine.Completed, StatusAt: int64(time.Duration(ended) * day), PrevHash: [32]byte{1}}
	for _, c := range change {
		c(st)
	}
	s.runs = append(s.runs, st)
}

func status(to machine.Status) func(*machine.State) {
	return func(st *machine.State) { st.Status = to }
}

func label(key, value string) func(*machine.State) {
	return func(st *machine.State) { st.Labels = append(st.Labels, machine.Label{Key: key, Value: value}) }
}

func inNamespace(ns uint32) func(*machine.State) {
	return func(st *machine.State) { st.Namespace = ns }
}

// TestRules: each set of rules chooses the expected runs.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules []Rule
		bytes int64
		want  string
	}{
		"no rule":                   {nil, 0, ""},
		"by age":                    {[]Rule{{OlderThan: 50 * day}}, 0, "b a R"},
		"to the moment":             {[]Rule{{OlderThan: 40 * day}}, 0, "c b a R"},
		"by number":                 {[]Rule{{KeepNewest: 2}}, 0, "c b a"},
		"by size":                   {[]Rule{{MaxBytes: 25}}, 10, "c b a"},
		"exactly the size":          {[]Rule{{MaxBytes: 30}}, 10, "b a"},
		"any limit takes":           {[]Rule{{OlderThan: 70 * day, KeepNewest: 4}}, 0, "a R"},
		"of a namespace":            {[]Rule{{Namespace: "red", OlderThan: day}}, 0, "S R"},
		"of a status":               {[]Rule{{Statuses: []machine.Status{machine.Failed}, OlderThan: day}}, 0, "b"},
		"of a label":                {[]Rule{{Labels: []machine.Label{{Key: "team", Value: "core"}}, OlderThan: day}}, 0, "c a"},
		"of all labels":             {[]Rule{{Labels: []machine.Label{{Key: "team", Value: "core"}, {Key: "hold", Value: "1"}}, OlderThan: day}}, 0, "a"},
		"the first rule keeps":      {[]Rule{{Labels: []machine.Label{{Key: "hold", Value: "1"}}}, {OlderThan: 50 * day}}, 0, "b R"},
		"the first rule is shorter": {[]Rule{{Statuses: []machine.Status{machine.Failed}, OlderThan: day}, {OlderThan: 85 * day}}, 0, "b a"},
		"what others count":         {[]Rule{{Statuses: []machine.Status{machine.Failed}, KeepNewest: 1}, {KeepNewest: 3}}, 0, "a"},
	} {
		s := &shelf{bytes: c.bytes}
		s.run("a", 10, label("team", "core"), label("hold", "1"))
		s.run("b", 50, status(machine.Failed))
		s.run("c", 60, label("team", "core"))
		s.run("d", 90)
		s.run("e", 99)
		s.run("f", 1, status(machine.Running), label("team", "core"))
		s.run("g", 1, status(machine.Waiting))
		s.run("h", 1, func(st *machine.State) { st.Imported = true })
		s.run("R", 20, inNamespace(1))
		s.run("S", 95, inNamespace(1))
		if err := s.newService(t, Policy{Rules: c.rules}).Round(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(s.deleted, " "); got != c.want {
			t.Errorf("%s: deleted %q, want %q", name, got, c.want)
		}
	}
}

// TestNeededRunsStay: a run stays while its parent has not ended or an agent is not notified. The
// round after that deletes it. A preview deletes nothing.
func TestNeededRunsStay(t *testing.T) {
	t.Parallel()
	s := &shelf{unconfirmed: map[string]bool{"b": true}}
	s.run("a", 1, func(st *machine.State) { st.Parent = &machine.Parent{RunID: "p"} })
	s.run("b", 1)
	s.run("c", 1)
	s.run("p", 1, status(machine.Waiting))
	policy := Policy{Rules: []Rule{{Name: "old", OlderThan: day}}}
	if err := s.newService(t, Policy{Rules: policy.Rules, Preview: true}).Round(context.Background()); err != nil || len(s.deleted) > 0 {
		t.Fatalf("the preview: %v, %v", s.deleted, err)
	}
	if got := outcomes(s); got != "c:would_delete b:needed a:needed" {
		t.Errorf("the preview: %s", got)
	}
	for _, want := range []string{"c:deleted b:needed a:needed", "p:deleted b:deleted a:deleted"} {
		s.reported = nil
		if err := s.newService(t, policy).Round(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := outcomes(s); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		s.unconfirmed = nil
		for _, st := range s.runs {
			st.Status = machine.Completed
		}
	}
	if s.reasons[0] != "retention/old" {
		t.Errorf("asked for by %s", s.reasons[0])
	}
}

func outcomes(s *shelf) string {
	var out []string
	for _, taken := range s.reported {
		out = append(out, taken.RunID+":"+string(taken.Outcome))
	}
	return strings.Join(out, " ")
}

// TestArchiveComesFirst: if any step of a round fails, a run is deleted only if its file is whole
// and has its name. The round reports the failure and continues with the other runs. The next round
// deletes the rest, and does not make an existing file again.
func TestArchiveComesFirst(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, fault := range []string{"", "export a", "export b", "delete a", "delete c", "list "} {
		dir := t.TempDir()
		s := &shelf{bytes: 7}
		for n := range 3 {
			s.run(string(rune('a'+n)), 1)
		}
		s.fault = func(step, run string) error {
			if step+" "+run == fault {
				return broken
			}
			return nil
		}
		room := s.newService(t, Policy{Rules: []Rule{{OlderThan: day, Archive: dir}}})
		err := room.Round(context.Background())
		if wants := fault == "list "; errors.Is(err, broken) != wants {
			t.Errorf("%s: %v", fault, err)
		}
		for _, run := range s.deleted {
			mustBeArchived(t, dir, run)
		}
		switch step, run, _ := strings.Cut(fault, " "); {
		case step == "export" && !strings.Contains(outcomes(s), run+":unarchived"), step == "delete" && !strings.Contains(outcomes(s), run+":failed"):
			t.Errorf("%s: told %s", fault, outcomes(s))
		case run != "" && len(s.deleted) != 2:
			t.Errorf("%s: deleted %v", fault, s.deleted)
		}
		before := files(t, dir)
		s.fault = func(step, run string) error {
			if step == "export" && slices.Contains(before, run+".0100000000000000.pawlrun") {
				return fmt.Errorf("%s is archived again", run)
			}
			return nil
		}
		if err := room.Round(context.Background()); err != nil || len(s.deleted) != 3 {
			t.Errorf("%s: then deleted %v, %v", fault, s.deleted, err)
		}
		for _, run := range s.deleted {
			mustBeArchived(t, dir, run)
		}
		if got := files(t, dir); len(got) != 3 {
			t.Errorf("%s: files %v", fault, got)
		}
	}
}

func mustBeArchived(t *testing.T, dir, run string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "default", run+".0100000000000000.pawlrun"))
	if err != nil || string(text) != "the beginning of "+run+", and its end" {
		t.Errorf("the file of %s: %q, %v", run, text, err)
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "default"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestNothingIsDeletedUnready: while the audit cannot write a line, or inputs are not
// accepted, no run is deleted.
func TestNothingIsDeletedUnready(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	s.run("a", 1)
	s.run("b", 1)
	full := errors.New("the audit is full")
	tries := 0
	room := s.newService(t, Policy{Rules: []Rule{{OlderThan: day}}, Ready: func() error {
		if tries++; tries > 2 {
			return full
		}
		return nil
	}})
	if err := room.Round(context.Background()); !errors.Is(err, full) || len(s.deleted) != 1 {
		t.Errorf("deleted %v, %v", s.deleted, err)
	}
	s.health = &machine.Error{Code: machine.CodeUnavailable, Reason: "DRAINING"}
	if err := s.newService(t, Policy{Rules: []Rule{{OlderThan: day}}}).Round(context.Background()); err == nil || len(s.deleted) != 1 {
		t.Errorf("draining: deleted %v, %v", s.deleted, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.health = nil
	if err := s.newService(t, Policy{Rules: []Rule{{OlderThan: day}}}).Round(ctx); !errors.Is(err, context.Canceled) || len(s.deleted) != 1 {
		t.Errorf("ended: deleted %v, %v", s.deleted, err)
	}
}

// TestFaultyRuleWaits: if an archive accepts no file, the round does not try it for each of very
// many runs, and continues with the other rules.
func TestFaultyRuleWaits(t *testing.T) {
	t.Parallel()
	s, tries := &shelf{}, 0
	for n := range 40 {
		s.run(fmt.Sprintf("%02d", n), 1, label("half", fmt.Sprint(n%2)))
	}
	s.fault = func(step, _ string) error {
		if step == "export" {
			tries++
			return errors.New("the disk is full")
		}
		return nil
	}
	archived := Rule{Labels: []machine.Label{{Key: "half", Value: "0"}}, OlderThan: day, Archive: t.TempDir()}
	if err := s.newService(t, Policy{Rules: []Rule{archived, {OlderThan: day}}}).Round(context.Background()); err != nil {
		t.Fatal(err)
	}
	if tries != mostFaults || len(s.deleted) != 20 || len(s.runs) != 20 {
		t.Errorf("%d tries, %d deleted, %d left", tries, len(s.deleted), len(s.runs))
	}
}

// TestForgets: the store forgets deleted runs only if the policy says so.
func TestForgets(t *testing.T) {
	t.Parallel()
	s := &shelf{deleted: []string{"x"}}
	forgot := ""
	for _, after := range []time.Duration{0, day} {
		room := s.newService(t, Policy{ForgetAfter: after, OnForgotten: func(ns string, n int) { forgot += fmt.Sprint(ns, n) }})
		if err := room.Round(context.Background()); err != nil {
			t.Fatal(err)
		}
		if (after > 0) != (forgot == "default1") {
			t.Errorf("after %v: %q", after, forgot)
		}
	}
}

// TestJustEndedStays: a run is kept for a while after its end, under every rule, because a caller that
// waits for the run must receive its end. A run whose parent is at another sidecar is kept for a day.
func TestJustEndedStays(t *testing.T) {
	t.Parallel()
	remote := func(st *machine.State) { st.Parent = &machine.Parent{RunID: "p", Origin: "https://other"} }
	ago := func(d time.Duration) func(*machine.State) {
		return func(st *machine.State) { st.StatusAt = int64(100*day - d) }
	}
	for name, c := range map[string]struct {
		rule  Rule
		grace time.Duration
		want  string
	}{
		"by number":                            {Rule{KeepNewest: 1}, 0, "f e c b"},
		"by size":                              {Rule{MaxBytes: 1}, 0, "f e c b"},
		"by age":                               {Rule{OlderThan: time.Second}, 0, "f e c b"},
		"longer":                               {Rule{KeepNewest: 1}, 25 * time.Hour, "b"},
		"shorter, but not for another sidecar": {Rule{KeepNewest: 1}, time.Nanosecond, "f e d c b"},
	} {
		s := &shelf{bytes: 2}
		s.run("a", 0, ago(0))
		s.run("b", 2)
		s.run("c", 0, ago(day), remote)
		s.run("d", 0, ago(time.Hour-1))
		s.run("e", 0, ago(time.Hour))
		s.run("f", 0, ago(2*time.Hour))
		s.run("g", 0, ago(day-1), remote)
		if err := s.newService(t, Policy{Rules: []Rule{c.rule}, Grace: c.grace}).Round(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(s.deleted, " "); got != c.want {
			t.Errorf("%s: deleted %q, want %q", name, got, c.want)
		}
	}
}

// TestNoRoomTakesNone: if the store has no room for deletions, no run is archived either, because
// the files would take the space that is left.
func TestNoRoomTakesNone(t *testing.T) {
	t.Parallel()
	low := &machine.Error{Code: machine.CodeResourceExhausted, Reason: "DISK_LOW"}
	s, dir := &shelf{}, t.TempDir()
	s.run("a", 1)
	s.fault = func(step, _ string) error {
		if step == "room" {
			return low
		}
		return nil
	}
	before := func(RunOutcome) error { t.Error("the audit was told"); return nil }
	if err := s.newService(t, Policy{Rules: []Rule{{OlderThan: day, Archive: dir}}, Before: before}).Round(context.Background()); !errors.Is(err, low) {
		t.Error(err)
	}
	if got := files(t, dir); len(got)+len(s.deleted)+len(s.reported) > 0 {
		t.Errorf("files %v, deleted %v, told %v", got, s.deleted, s.reported)
	}
}

// TestArchiveIsOnDisk: a run is deleted only after the directory of its namespace and the name of
// its file are on disk, even if the directory existed before. A file whose name is not on disk is
// removed. An archive directory that has vanished is not created again.
func TestArchiveIsOnDisk(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		dir, s := t.TempDir(), &shelf{}
		if there {
			if err := os.Mkdir(filepath.Join(dir, "default"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s.run("a", 1)
		room := s.newService(t, Policy{Rules: []Rule{{OlderThan: day, Archive: dir}}})
		broken := errors.New("the disk is gone")
		for _, failing := range []string{dir, filepath.Join(dir, "default")} {
			room.syncDir = func(synced string) error {
				if synced == failing {
					return broken
				}
				return nil
			}
			if err := room.Round(context.Background()); err != nil || len(s.deleted) > 0 || len(files(t, dir)) > 0 {
				t.Errorf("%v, deleted %v, files %v", err, s.deleted, files(t, dir))
			}
		}
		var synced []string
		room.syncDir = func(dir string) error { synced = append(synced, dir); return nil }
		if err := room.Round(context.Background()); err != nil || !slices.Equal(synced, []string{dir, filepath.Join(dir, "default")}) || len(s.deleted) != 1 {
			t.Errorf("%v, synced %v, deleted %v", err, synced, s.deleted)
		}
	}
	s, gone := &shelf{}, filepath.Join(t.TempDir(), "gone")
	s.run("a", 1)
	if err := s.newService(t, Policy{Rules: []Rule{{OlderThan: day, Archive: gone}}}).Round(context.Background()); err != nil || outcomes(s) != "a:unarchived" {
		t.Errorf("%v, %s", err, outcomes(s))
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the archive was made anew: %v", err)
	}
}

// TestArchiveLeavesRoom: the export stops before a file fills the disk, and removes the partial
// file. Clear removes the partial files that a crash left.
func TestArchiveLeavesRoom(t *testing.T) {
	t.Parallel()
	dir, s, looks := t.TempDir(), &shelf{}, 0
	s.run("a", 1)
	full := errors.New("the disk is nearly full")
	room := s.newService(t, Policy{Rules: []Rule{{OlderThan: day, Archive: dir}}, CheckSpace: func(in string) error {
		if looks++; in != filepath.Join(dir, "default") || looks == 1 {
			return full
		}
		return nil
	}})
	if err := room.Round(context.Background()); err != nil || outcomes(s) != "a:unarchived" || len(files(t, dir)) > 0 {
		t.Errorf("%v, %s, files %v", err, outcomes(s), files(t, dir))
	}
	out := &guardedWriter{out: io.Discard, checkSpace: func() error { return full }, countdown: spaceCheckBytes}
	for range 2 {
		if n, err := out.Write(make([]byte, spaceCheckBytes/2)); n == 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if _, err := out.Write([]byte{1}); !errors.Is(err, full) {
		t.Errorf("after %d bytes: %v", spaceCheckBytes, err)
	}
	part := filepath.Join(dir, "default", "b"+archiveSuffix+partSuffix)
	if err := os.WriteFile(part, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := room.Round(context.Background()); err != nil || len(s.deleted) != 1 {
		t.Errorf("%v, deleted %v", err, s.deleted)
	}
	if err := Clear(dir, nil); err != nil || len(files(t, dir)) != 1 {
		t.Errorf("%v, files %v", err, files(t, dir))
	}
}

// TestErasableRunsAreLeft: a rule that archives skips runs whose values can be erased, or were. It
// does not report them, and comes to the runs behind them, however many it skips in a row. A rule
// without an archive deletes them.
func TestErasableRunsAreLeft(t *testing.T) {
	t.Parallel()
	fill := func() *shelf {
		s := &shelf{}
		s.run("a", 1)
		for n := range 2 * mostFaults {
			s.run(fmt.Sprintf("b%02d", n), 1, func(st *machine.State) {
				if st.Erasable = true; n == 0 {
					st.Erasable, st.Erased = false, &machine.Erased{}
				}
			})
		}
		s.fault = func(step, run string) error {
			if step == "export" && run != "a" {
				return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "RUN_ERASABLE"}
			}
			return nil
		}
		return s
	}
	for name, c := range map[string]struct {
		p    Policy
		want string
	}{
		"archived":             {Policy{Rules: []Rule{{OlderThan: day, Archive: t.TempDir()}}}, "a:deleted"},
		"by number":            {Policy{Rules: []Rule{{KeepNewest: 2 * mostFaults, Archive: t.TempDir()}}}, "a:deleted"},
		"said before":          {Policy{Rules: []Rule{{OlderThan: day, Archive: t.TempDir()}}, Preview: true}, "a:would_delete"},
		"the next one decides": {Policy{Rules: []Rule{{Namespace: "red", OlderThan: day}, {OlderThan: day, Archive: t.TempDir()}}}, "a:deleted"},
	} {
		s := fill()
		if err := s.newService(t, c.p).Round(context.Background()); err != nil || outcomes(s) != c.want {
			t.Errorf("%s: told %q, %v", name, outcomes(s), err)
		}
	}
	s := fill()
	if err := s.newService(t, Policy{Rules: []Rule{{OlderThan: day}}}).Round(context.Background()); err != nil || len(s.runs) > 0 {
		t.Errorf("without an archive %d stay, %v", len(s.runs), err)
	}
}

// TestOthersForgetWhateverRunsDo: other services remove their old data in each round, also while no
// run may be deleted. Without rules for runs, the round makes no checks for runs. An error of
// another service is an error of the round, and not of a run.
func TestOthersForgetWhateverRunsDo(t *testing.T) {
	t.Parallel()
	low := &machine.Error{Code: machine.CodeResourceExhausted, Reason: "DISK_LOW"}
	for name, c := range map[string]struct {
		p    Policy
		want error
	}{
		"no rules":    {Policy{}, nil},
		"rules":       {Policy{Rules: []Rule{{OlderThan: day}}}, low},
		"forgets ids": {Policy{ForgetAfter: day}, low},
	} {
		s, also := &shelf{}, 0
		s.run("a", 1)
		s.fault = func(step, _ string) error {
			if step == "room" {
				return low
			}
			return nil
		}
		room := s.newService(t, c.p)
		room.cfg.Also = func(context.Context) error { also++; return nil }
		err := room.Round(context.Background())
		if c.want == nil && err != nil || !errors.Is(err, c.want) || also != 1 || len(s.deleted)+len(s.reported) > 0 {
			t.Errorf("%s: %v, others forgot %d times, deleted %v, told %v", name, err, also, s.deleted, s.reported)
		}
		ctx, cancel := context.WithCancel(context.Background())
		due := make(chan time.Time, 1)
		due <- time.Time{}
		var fault error
		room.cfg.Clock = rounds{Clock: room.cfg.Clock, due: due}
		room.cfg.Also = func(context.Context) error { return errLetters }
		room.cfg.OnError = func(err error) { fault = err; cancel() }
		if err := room.Run(ctx); err != nil || !errors.Is(fault, errLetters) || c.want != nil && !errors.Is(fault, c.want) || len(s.reported) > 0 {
			t.Errorf("%s: %v, the fault %v, told %v", name, err, fault, s.reported)
		}
	}
}

var errLetters = errors.New("letters")

// rounds is a clock that says when rounds are due.
type rounds struct {
	runtime.Clock
	due chan time.Time
}

func (c rounds) After(time.Duration) <-chan time.Time { return c.due }

// TestWhatACallerDeletes: a caller deletes a run while a rule works on it, at any step. The round
// reports the run as gone, which is neither an error nor a deletion by the rule.
func TestWhatACallerDeletes(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"bytes", "export", "delete"} {
		s, begun := &shelf{}, 0
		s.run("a", 1)
		s.fault = func(step, run string) error {
			if step != at {
				return nil
			}
			s.runs = nil
			if step == "delete" {
				s.alreadyDeleted = true
				return nil
			}
			d := machine.Deleted{RunID: run}
			return fmt.Errorf("%s: %w", step, d.Err())
		}
		p := Policy{Rules: []Rule{{OlderThan: day, Archive: t.TempDir()}}, Before: func(RunOutcome) error { begun++; return nil }}
		if err := s.newService(t, p).Round(context.Background()); err != nil || outcomes(s) != "a:gone" || s.reported[0].Err != nil || s.reported[0].Announced != (begun > 0) {
			t.Errorf("%s: %v, told %v, begun %d times", at, err, s.reported, begun)
		}
	}
}

// TestClearStaysInItsDirectory: the name of an archive directory is not read as a pattern.
func TestClearStaysInItsDirectory(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	for _, dir := range []string{"runs[1]", "runs1", "runs*", "runs-others"} {
		if err := os.MkdirAll(filepath.Join(above, dir, "default"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(above, dir, "default", "a"+archiveSuffix+partSuffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"runs[1]", "runs*"} {
		if err := Clear(filepath.Join(above, dir), nil); err != nil || len(files(t, filepath.Join(above, dir))) != 0 {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, dir := range []string{"runs1", "runs-others"} {
		if len(files(t, filepath.Join(above, dir))) != 1 {
			t.Errorf("%s was cleared too", dir)
		}
	}
}
