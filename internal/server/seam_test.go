package server

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/test/testkit"
)

// seamPack has one state with one tool: its call is a record, a counter and an
// outbox row in one commit.
const seamPack = `{
  "id": "seam", "name": "Seam", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {"worker": {"id": "worker", "name": "Worker", "version": "1.0.0", "system_template": "Work.", "tools": ["run_tests"]}},
  "tools": {"run_tests": {"name": "run_tests", "description": "Runs tests"}},
  "workflow": {"version": 2, "entry": "work", "states": {
    "work": {"prompt_task": "worker", "on_event": {"Done": "done"}},
    "done": {"prompt_task": "worker", "terminal": true}
  }}
}`

// crashPoint is a place on the way of a transition. Passing it while it is the one to
// crash at keeps the directory as a SIGKILL there would leave it.
type crashPoint struct {
	at    string
	crash func()

	mu      sync.Mutex
	enabled bool
}

func (s *crashPoint) enable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enabled = true
}

func (s *crashPoint) pass(place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.enabled && s.at == place {
		s.enabled = false
		s.crash()
	}
}

// seamClock is asked for the time when an input has the run's turn.
type seamClock struct {
	*testkit.Clock
	seam *crashPoint
}

func (c seamClock) Now() time.Time {
	c.seam.pass(stopQueue)
	return c.Clock.Now()
}

// seamStore stands between the engine and its store.
type seamStore struct {
	*store.Store
	seam *crashPoint
}

func (s seamStore) Commit(ctx context.Context, b *machine.Batch) (machine.Committed, error) {
	s.seam.pass(stopStep)
	done, err := s.Store.Commit(ctx, b)
	s.seam.pass(stopReturned)
	return done, err
}

// The stops of the way of a transition, and the places inside the fourth.
const (
	stopHandler   = "1 before the engine is called"
	stopQueue     = "2 in its turn, before it is stamped"
	stopStep      = "3 decided and stepped, before the store has it"
	stopCommit    = "4 in a group that Badger has not"
	stopSync      = "4 in the middle of the write"
	stopSynced    = "4 synced, nobody is told"
	stopReturned  = "4 answered by the store"
	stopPublished = "5 published to a watcher"
	stopOutbox    = "6 the effect was sent"
)

// process is an engine on a real store.
type process struct {
	*services.Runtime
	t     *testing.T
	store *store.Store
	clock *testkit.Clock
}

func startProcess(t *testing.T, dir string, clock *testkit.Clock, s *crashPoint) *process {
	t.Helper()
	hook := func(place string) func(store.Group) error {
		return func(store.Group) error { s.pass(place); return nil }
	}
	opened, err := store.Open(store.Options{
		Dir: dir, MemTableSize: 8 << 20, MinFree: 1,
		Hooks: store.Hooks{BeforeCommit: hook(stopCommit), AfterCommit: func(g store.Group) error {
			s.pass(stopSync)
			return hook(stopSynced)(g)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := services.New(services.Config{Config: runtime.Config{
		Store: seamStore{opened, s}, Clock: seamClock{clock, s}, IDs: &testkit.IDs{}, AllowTools: []string{"*"},
	}})
	if err != nil {
		t.Fatal(errors.Join(err, opened.Close()))
	}
	return &process{Runtime: engine, t: t, store: opened, clock: clock}
}

func (p *process) end() {
	p.t.Helper()
	if err := errors.Join(p.Engine.Close(), p.store.Close()); err != nil {
		p.t.Error(err)
	}
}

// background runs the engine's timers until the returned function is called.
func (p *process) background() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	}
}

func (p *process) begin() runtime.RunRef {
	p.t.Helper()
	call := runtime.Call{Principal: runtime.Anonymous()}
	if _, err := p.RegisterPack(p.t.Context(), packs.RegisterRequest{Call: call, Document: []byte(seamPack)}); err != nil {
		p.t.Fatal(err)
	}
	run, err := p.StartRun(p.t.Context(), runtime.StartRequest{Call: call, Pack: "seam", Execution: machine.Caller, RequestID: "s"})
	if err != nil {
		p.t.Fatal(err)
	}
	return runtime.RunRef{Call: call, RunID: run.RunID}
}

// send is the input: one step of the open turn, under its own id.
func (p *process) send(ref runtime.RunRef) runtime.Answer {
	p.t.Helper()
	turn, err := p.GetTurn(p.t.Context(), ref)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.RequestSteps(p.t.Context(), runtime.StepsRequest{
		TurnCall: runtime.TurnCall{RunRef: ref, TurnToken: turn.Token, ID: "input"},
		Requests: []machine.StepRequest{{Key: "k", Tool: "run_tests", Payload: []byte(`{}`)}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return answer
}

func (p *process) watch(ref runtime.RunRef) *streams.Watch {
	p.t.Helper()
	w, err := p.Watch(p.t.Context(), streams.Request{
		Call: ref.Call, Filter: streams.Filter{RunID: ref.RunID, Kinds: []machine.RecordKind{machine.RecStepRequested}}, Follow: true,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

// stepQueue takes the steps that it is sent; nothing else comes in these tests.
type stepQueue chan dispatch.StepDelivery

func (h stepQueue) PrepareTurn(dispatch.TurnDelivery) (func(), error) {
	return nil, errors.New("a turn of a run of CALLER")
}
func (h stepQueue) PrepareStep(d dispatch.StepDelivery) (func(), error) {
	return func() { h <- d }, nil
}
func (stepQueue) Revoke(dispatch.Revocation)                       {}
func (stepQueue) StepsAnswered(string, uint64, []history.StepView) {}
func (stepQueue) Unserved(string, dispatch.UnservedCause)          {}
func (stepQueue) End(error)                                        {}

// connect adds a worker of the tool with room for one step.
func (p *process) connect(id string) stepQueue {
	p.t.Helper()
	h := make(stepQueue, 8)
	conn, err := p.Work.Connect(p.t.Context(), dispatch.WorkerRequest{
		Call: runtime.Call{Principal: runtime.Principal{Subject: id, Scopes: runtime.ScopeWork}}, ID: id, Sink: h,
		Offer: machine.WorkOffer{Tools: []string{"run_tests"}, Steps: 8},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	conn.Worker.Credit(0, 8)
	return h
}

func (p *process) outbox() []machine.OutboxRow {
	p.t.Helper()
	rows, err := p.store.Outbox(p.t.Context(), machine.OutboxStep, 1<<62, 10)
	if err != nil {
		p.t.Fatal(err)
	}
	return rows
}

// TestCrashSeams kills a process on a real store at each stop of the way of a
// transition. The next process on what the disk then held has the input whole or
// not at all; the caller's repeat takes effect once; and its effect is offered
// again with the same key if it was never sent, else its outcome is unknown.
func TestCrashSeams(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		stop string
		// tear is how much of the group's bytes the disk got.
		tear float64
		// applied: the input took effect before the crash.
		applied bool
	}{
		{stop: stopHandler}, {stop: stopQueue}, {stop: stopStep}, {stop: stopCommit},
		{stop: stopSync, tear: 0.2}, {stop: stopSync, tear: 0.6}, {stop: stopSync, tear: 0.95},
		{stop: stopSynced, applied: true}, {stop: stopReturned, applied: true},
		{stop: stopPublished, applied: true}, {stop: stopOutbox, applied: true},
	} {
		t.Run(tc.stop, func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			dir, ref := crashAt(t, tc.stop, tc.tear, clock)
			clock.Advance(time.Second)
			p := startProcess(t, dir, clock, &crashPoint{})
			rows := p.outbox()
			if (len(rows) == 1) != tc.applied || len(rows) > 1 {
				t.Fatalf("the outbox holds %+v, applied is %v", rows, tc.applied)
			}
			stop := p.background()
			again := p.send(ref)
			if again.Duplicate != tc.applied || again.State.ToolCalls != 1 || again.State.Seq != 2 {
				t.Fatalf("the repeat: duplicate %v, %d calls, seq %d", again.Duplicate, again.State.ToolCalls, again.State.Seq)
			}
			records := int64(2)
			switch leased := p.hasStep(rows); {
			case leased && tc.stop != stopPublished && tc.stop != stopOutbox || !leased && tc.stop == stopOutbox:
				t.Fatalf("the step is held: %v", leased)
			case leased:
				records++
				awaitGivenUp(t, p, ref)
			default:
				takeStep(t, p)
			}
			stop()
			p.end()
			if report, err := Check(t.Context(), Data{Dir: dir}); err != nil || report.Runs != 1 || report.Records != records {
				t.Errorf("check: %+v, %v", report, err)
			}
		})
	}
}

// crashAt runs the input through a process that dies at the stop and returns
// the directory that it leaves.
func crashAt(t *testing.T, stop string, tear float64, clock *testkit.Clock) (string, runtime.RunRef) {
	t.Helper()
	dir, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
	before := filepath.Join(t.TempDir(), "data")
	s := &crashPoint{at: stop, crash: func() { copyStore(t, dir, copied) }}
	p := startProcess(t, dir, clock, s)
	ref := p.begin()
	w, worker := p.watch(ref), p.connect("first")
	defer w.Close()
	copyStore(t, dir, before)
	s.enable()
	s.pass(stopHandler)
	p.send(ref)
	if _, err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.pass(stopPublished)
	if d := <-worker; d.StepLease.Attempt != 1 {
		t.Fatalf("assigned %+v", d.StepLease)
	}
	s.pass(stopOutbox)
	if s.enabled {
		t.Fatalf("the way does not pass %q", stop)
	}
	p.end()
	if stop == stopSync {
		tearLog(t, before, copied, tear)
	}
	return copied, ref
}

// held: the store says that a worker has the step.
func (p *process) hasStep(rows []machine.OutboxRow) bool {
	p.t.Helper()
	if len(rows) == 0 {
		return false
	}
	holder, err := p.store.StepHolder(p.t.Context(), rows[0])
	if err != nil {
		p.t.Fatal(err)
	}
	return holder != machine.StepHolder{}
}

// awaitGivenUp waits until the step is abandoned, at the end of the grace. No other worker gets it.
func awaitGivenUp(t *testing.T, p *process, ref runtime.RunRef) {
	t.Helper()
	worker := p.connect("second")
	p.clock.AwaitAlarm(dispatch.DefaultRestartGrace)
	p.clock.Advance(dispatch.DefaultRestartGrace)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, _, err := p.WaitRun(ctx, streams.WaitRequest{RunRef: ref, AfterSeq: 2})
	if err != nil {
		t.Fatal(err)
	}
	if s.Steps[0].Status != machine.StepStatusError || len(worker) != 0 {
		t.Fatalf("the step is %+v, %d assignments", s.Steps[0], len(worker))
	}
}

// takeStep takes the step at a new worker.
func takeStep(t *testing.T, p *process) {
	t.Helper()
	worker := p.connect("second")
	select {
	case d := <-worker:
		if d.StepLease.Step != 1 || d.StepLease.Attempt != 1 || d.Step.Key != "k" {
			t.Fatalf("assigned %+v", d)
		}
	case <-time.After(time.Minute):
		t.Fatal("the step is not offered again")
	}
	if len(worker) != 0 {
		t.Fatal("the step is offered twice")
	}
}
