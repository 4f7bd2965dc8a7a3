package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const (
	workerKills = 6
	workerRuns  = 8
	// workerVisits is how many visits with a step each run makes before its last.
	workerVisits = 150
)

// counter executes the turns and steps of the count pack and counts the tool's
// executions by run and step.
type counter struct {
	mu    sync.Mutex
	calls map[string]int
	turns atomic.Int64
}

func (c *counter) turn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	c.turns.Add(1)
	view := t.Assignment.GetTurn()
	if view.GetTerminal() {
		return pawl.Completion{}, nil
	}
	if _, err := t.Step(ctx, "add", "add", `{}`); err != nil {
		return pawl.Completion{}, err
	}
	if view.GetTurn().GetVisit() < workerVisits {
		return pawl.Completion{Event: "More"}, nil
	}
	return pawl.Completion{Event: "Enough"}, nil
}

func (c *counter) add(_ context.Context, s *pawl.Step) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[s.Assignment.GetLease().GetRunId()]++
	return json.RawMessage(`1`), nil
}

// TestKillWithWorkers sends SIGKILL to the sidecar while workers execute turns
// and steps: they find the new one, keep what they hold, and every run ends with
// the totals of one that nothing happened to; no tool runs twice.
func TestKillWithWorkers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s := newSidecar(t, "--pack", "testdata/count.json", "--allow-tool", "*")
	s.start()
	runs := s.runs()
	var ids []string
	for range workerRuns {
		got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_WORKERS})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got.GetRun().GetRunId())
	}
	c := &counter{calls: map[string]int{}}
	stop := startCounters(ctx, t, s, c)
	defer stop()
	for range workerKills {
		seen := c.turns.Load()
		eventually(t, "turns are executed", func() bool { return c.turns.Load() >= seen+int64(20+rand.IntN(60)) })
		s.kill()
		s.start()
	}
	for _, id := range ids {
		c.verify(ctx, t, runs, id)
	}
	stop()
	if code := s.stop(); code != 0 {
		t.Errorf("the sidecar ended with code %d", code)
	}
	s.check()
}

// startCounters runs two workers for turns and two for steps.
func startCounters(ctx context.Context, t *testing.T, s *sidecar, c *counter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, cfg := range []pawl.WorkerConfig{
		{ID: "turns-1", Turns: 3, Prompts: map[string]pawl.TurnFunc{"counter": c.turn}},
		{ID: "turns-2", Turns: 3, Prompts: map[string]pawl.TurnFunc{"*": c.turn}},
		{ID: "steps-1", Steps: 2, Tools: map[string]pawl.ToolFunc{"add": c.add}},
		{ID: "steps-2", Steps: 2, Tools: map[string]pawl.ToolFunc{"*": c.add}},
	} {
		cfg.Conn, cfg.Retry = s.dial(), 20*time.Millisecond
		w, err := pawl.NewWorker(cfg)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Errorf("worker %s: %v", cfg.ID, err)
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); running.Wait() })
}

// verify waits for the end of a run and compares its totals.
func (c *counter) verify(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, id string) {
	t.Helper()
	var run *pawlv1.Run
	eventually(t, "the run ends", func() bool {
		got, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: id})
		run = got.GetRun()
		return err == nil && !got.GetTimedOut()
	})
	if run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || run.GetTotalVisits() != workerVisits+1 || run.GetToolCalls() != workerVisits {
		t.Errorf("run %s ended %v (%s) with %d visits and %d calls", id, run.GetStatus(), run.GetReason(), run.GetTotalVisits(), run.GetToolCalls())
	}
	failed, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{
		RunId: id, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_FAILED},
	})
	if err != nil || len(failed.GetRecords()) != 0 {
		t.Errorf("run %s has failed attempts %v, %v", id, failed.GetRecords(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.calls[id]; got != workerVisits {
		t.Errorf("the tool ran %d times for the %d steps of run %s", got, workerVisits, id)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestKillInAStep kills the sidecar and the worker while the worker executes a step. It is unknown
// whether the tool ran, so it does not run again, and the turn receives this. A step that no worker
// had is executed normally.
func TestKillInAStep(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]bool{"executed when it was killed": true, "still waiting": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killInAStep(t, begun)
		})
	}
}

func killInAStep(t *testing.T, started bool) {
	s := newSidecar(t, "--pack", "testdata/count.json", "--allow-tool", "*", "--restart-grace", "500ms")
	s.start()
	// Begun only now: the first test to come builds the binary.
	ctx := deadline(t, 2*time.Minute)
	asked, told := make(chan struct{}, 8), make(chan error, 8)
	stopTurns := startWorker(ctx, t, s, pawl.WorkerConfig{ID: "turns", Prompts: map[string]pawl.TurnFunc{
		"*": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
			if turn.Assignment.GetTurn().GetTerminal() {
				return pawl.Completion{}, nil
			}
			asked <- struct{}{}
			_, err := turn.Step(ctx, "add", "add", `{}`)
			if ctx.Err() == nil {
				told <- err
			}
			return pawl.Completion{Event: "Enough"}, ctx.Err()
		},
	}})
	defer stopTurns()
	var first, second atomic.Int64
	stopFirst := func() {}
	if started {
		stopFirst = startWorker(ctx, t, s, pawl.WorkerConfig{ID: "first", Tools: map[string]pawl.ToolFunc{
			"add": func(ctx context.Context, _ *pawl.Step) (json.RawMessage, error) {
				first.Add(1)
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}})
	}
	runs := s.runs()
	got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	id := got.GetRun().GetRunId()
	select {
	case <-asked:
	case <-ctx.Done():
		t.Fatal("nobody executes the turn")
	}
	eventually(t, "the step is pending, and executed if somebody can", func() bool {
		run, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: id})
		return err == nil && run.GetRun().GetToolCalls() == 1 && (first.Load() == 1 || !started)
	})
	s.kill()
	stopFirst()
	s.start()
	stopSecond := startWorker(ctx, t, s, pawl.WorkerConfig{ID: "second", Tools: map[string]pawl.ToolFunc{
		"add": func(context.Context, *pawl.Step) (json.RawMessage, error) {
			second.Add(1)
			return json.RawMessage(`1`), nil
		},
	}})
	defer stopSecond()
	eventually(t, "the run ends", func() bool {
		waited, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: id})
		return err == nil && !waited.GetTimedOut() && waited.GetRun().GetStatus() == pawlv1.RunStatus_RUN_STATUS_COMPLETED
	})
	failure, lost := errors.AsType[*pawl.Failure](<-told)
	if lost != started || lost && failure.Code != "WORKER_LOST" {
		t.Errorf("the turn was told %v", failure)
	}
	if want := map[bool]int64{true: 0, false: 1}[started]; second.Load() != want {
		t.Errorf("the second worker ran the tool %d times, want %d", second.Load(), want)
	}
}

// startWorker runs a worker until it is stopped; it returns no work that it has.
func startWorker(ctx context.Context, t *testing.T, s *sidecar, cfg pawl.WorkerConfig) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	cfg.Conn, cfg.Retry, cfg.Grace = s.dial(), 20*time.Millisecond, 10*time.Millisecond
	w, err := pawl.NewWorker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			t.Errorf("worker %s: %v", cfg.ID, err)
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-done })
}
