package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// startOwn starts a run that the application drives.
func (s *sidecar) startOwn(ctx context.Context) string {
	s.t.Helper()
	got, err := s.runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.GetRun().GetRunId()
}

// serving runs a worker without functions until the test ends.
func (s *sidecar) serving(ctx context.Context, id string) *pawl.Worker {
	s.t.Helper()
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: s.conn, ID: id, Retry: 5 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
	return w
}

// TestServe: one worker, over one stream that breaks now and then, serves many runs at once to
// their ends, each by its own functions; no tool is called twice.
func TestServe(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	w := s.serving(ctx, "app")
	const runs, visits = 40, 5
	var all sync.WaitGroup
	for range runs {
		all.Go(func() {
			var calls atomic.Int64
			turn, tool := counting(visits, &calls)
			run := s.startOwn(ctx)
			ended, err := w.Serve(ctx, run, pawl.Serving{Turn: func(ctx context.Context, at *pawl.Turn) (pawl.Completion, error) {
				if at.Assignment.GetLease().GetRunId() != run {
					t.Errorf("a turn of %s went to the function of %s", at.Assignment.GetLease().GetRunId(), run)
				}
				if calls.Load() == 2 {
					s.cut()
				}
				return turn(ctx, at)
			}, Tools: map[string]pawl.ToolFunc{"add": tool}})
			if err != nil || !ended {
				t.Errorf("run %s: ended %t, %v", run, ended, err)
				return
			}
			got := s.ended(ctx, run)
			if got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || got.GetTotalVisits() != visits+1 || calls.Load() != visits {
				t.Errorf("%d calls, ended %v", calls.Load(), got)
			}
		})
	}
	all.Wait()
}

// TestServeEnds: how a serving ends before its run does.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	first := s.serving(ctx, "first")
	started := make(chan struct{}, 8)
	waits := pawl.Serving{Turn: func(ctx context.Context, _ *pawl.Turn) (pawl.Completion, error) {
		started <- struct{}{}
		<-ctx.Done()
		return pawl.Completion{}, ctx.Err()
	}}
	run, lost := s.startOwn(ctx), make(chan error, 1)
	go func() {
		_, err := first.Serve(ctx, run, waits)
		lost <- err
	}()
	<-started
	if _, err := first.Serve(ctx, run, waits); !errors.Is(err, pawl.ErrServed) {
		t.Fatalf("served twice: %v", err)
	}
	// It connects for the run, and takes it over all the same.
	second := s.serving(ctx, "second")
	own, giveUp := context.WithCancel(ctx)
	given := make(chan error, 1)
	go func() {
		_, err := second.Serve(own, run, waits)
		given <- err
	}()
	<-started
	if err := <-lost; !errors.Is(err, pawl.ErrTakenOver) {
		t.Fatalf("taken over: %v", err)
	}
	giveUp()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Fatalf("given up: %v", err)
	}
	ended, err := first.Serve(ctx, run, pawl.Serving{Turn: func(context.Context, *pawl.Turn) (pawl.Completion, error) {
		return pawl.Completion{Await: pawlv1.Awaiting_AWAITING_INPUT}, nil
	}})
	if err != nil || ended {
		t.Fatalf("a run that waits: ended %t, %v", ended, err)
	}
	_, err = first.Serve(ctx, s.start(ctx), waits)
	if status.Code(errors.Unwrap(err)) != codes.PermissionDenied {
		t.Fatalf("a run of workers: %v", err)
	}
}

// TestServeMistakes: a mistake of the program is the error of the serving, at once, and uses up no
// attempt; other failures go to OnError, and the turn is tried again.
func TestServeMistakes(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	w := s.serving(ctx, "app")
	completes := func(done pawl.Completion) pawl.Serving {
		return pawl.Serving{Turn: func(context.Context, *pawl.Turn) (pawl.Completion, error) { return done, nil }}
	}
	other := []*pawlv1.ArtifactWrite{{Name: "no", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: "x"}}}}
	for name, c := range map[string]struct {
		with   pawl.Serving
		reason string
		is     error
	}{
		"no function for the prompt": {pawl.Serving{}, "", pawl.ErrNoTurnFunc},
		"no such event":              {completes(pawl.Completion{Event: "Nope"}), "UNKNOWN_EVENT", nil},
		"no such artifact":           {completes(pawl.Completion{Event: "More", Artifacts: other}), "UNDECLARED_ARTIFACT", nil},
		"await with an event":        {completes(pawl.Completion{Event: "More", Await: pawlv1.Awaiting_AWAITING_INPUT}), "AWAIT_WITH_EVENT", nil},
	} {
		run := s.startOwn(ctx)
		_, err := w.Serve(ctx, run, c.with)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || c.reason != "" && pawl.ReasonOf(err) != c.reason {
			t.Errorf("%s: %v", name, err)
		}
		got, err := s.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run})
		if err != nil || got.GetRun().GetTurn().GetAttempt() != 1 {
			t.Errorf("%s: then %v, %v", name, got.GetRun(), err)
		}
	}
	told, run := make(chan error, 8), s.startOwn(ctx)
	failing := pawl.Serving{
		Turn:    func(context.Context, *pawl.Turn) (pawl.Completion, error) { return pawl.Completion{}, errBroken },
		OnError: func(err error) { told <- err },
	}
	if ended, err := w.Serve(ctx, run, failing); err != nil || !ended {
		t.Errorf("a function that fails: ended %t, %v", ended, err)
	}
	if err := <-told; !errors.Is(err, errBroken) {
		t.Errorf("told %v", err)
	}
}

// TestServeTellsOfARefusedResult: a result of a tool of a served run that the sidecar refuses goes to OnError of the run.
func TestServeTellsOfARefusedResult(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	w := s.serving(ctx, "app")
	told := make(chan error, 8)
	serving := pawl.Serving{
		Turn: func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
			if turn.Assignment.GetTurn().GetTerminal() {
				return pawl.Completion{}, nil
			}
			_, _ = turn.Step(ctx, "", "add", `{}`) // the function goes on without the result
			return pawl.Completion{Event: "Enough"}, nil
		},
		Tools:   map[string]pawl.ToolFunc{"add": func(context.Context, *pawl.Step) (json.RawMessage, error) { return json.RawMessage("nope"), nil }},
		OnError: func(err error) { told <- err },
	}
	if _, err := w.Serve(ctx, s.startOwn(ctx), serving); err != nil {
		t.Fatal(err)
	}
	close(told)
	if failure, ok := errors.AsType[*pawl.Failure](<-told); !ok || failure.Code != "INVALID_JSON" || !failure.Unknown {
		t.Errorf("told %v", failure)
	}
}

var errBroken = errors.New("broken")

// A process starts a run and executes it to its end; the sidecar keeps every turn and call.
func ExampleWorker_Serve() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	local := exampleSidecar(ctx)
	defer local.Close()
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: local.Conn, ID: "app"})
	check(err)
	go func() { check(w.Run(ctx)) }()
	run, err := pawlv1.NewRunServiceClient(local.Conn).StartRun(ctx, &pawlv1.StartRunRequest{Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_CALLER})
	check(err)
	ended, err := w.Serve(ctx, run.GetRun().GetRunId(), pawl.Serving{Turn: func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
		turn := t.Assignment.GetTurn()
		fmt.Println(turn.GetTurn().GetState(), turn.GetTurn().GetVisit())
		if turn.GetTerminal() {
			return pawl.Completion{}, nil
		}
		return pawl.Completion{Event: "Error"}, nil
	}})
	fmt.Println(ended, err)
	// Output:
	// work 1
	// work 2
	// work 3
	// give_up 1
	// true <nil>
}
