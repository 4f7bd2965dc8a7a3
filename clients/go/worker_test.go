package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

const pack = `{
  "id": "count", "name": "Count", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {"counter": {"id": "counter", "name": "C", "version": "1.0.0", "system_template": "Count.", "tools": ["add"]}},
  "tools": {"add": {"name": "add", "description": "Adds"}},
  "workflow": {"version": 2, "entry": "count", "engine": {"x_pawl": {"retry": {"max_attempts": 3}}}, "states": {
    "count": {"prompt_task": "counter", "on_event": {"More": "count", "Enough": "end"}},
    "end": {"prompt_task": "counter", "terminal": true}
  }}
}`

// sidecar is a server over a real engine, behind a wire that can be cut.
type sidecar struct {
	t      *testing.T
	store  *testkit.Store
	server *grpcapi.Server
	// conn is the workers', and can be cut; runs has a wire of its own, so that the
	// test's own calls are never lost.
	conn  *grpc.ClientConn
	runs  pawlv1.RunServiceClient
	packs pawlv1.PackServiceClient

	mu   sync.Mutex
	open []net.Conn
}

func newSidecar(t *testing.T) *sidecar {
	t.Helper()
	s := &sidecar{t: t, store: testkit.StoreFor(t)}
	engine, err := services.New(services.Config{Config: runtime.Config{
		Store: s.store, Clock: runtime.SystemClock{}, IDs: runtime.NewSystemIDs(), AllowTools: []string{"*"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if s.server, err = grpcapi.New(grpcapi.Config{Runtime: engine, Listen: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { _ = engine.Run(ctx) })
	loops.Go(func() { _ = s.server.Serve() })
	t.Cleanup(func() {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = s.server.Shutdown(short)
		stop()
		loops.Wait()
		_ = engine.Close()
		if err := s.store.Check(); err != nil {
			t.Errorf("the store is damaged: %v", err)
		}
	})
	s.conn = s.dial(s.tracked)
	sure := s.dial(dialTCP)
	s.runs = pawlv1.NewRunServiceClient(sure)
	s.packs = pawlv1.NewPackServiceClient(sure)
	if _, err := s.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(pack)}); err != nil {
		t.Fatal(err)
	}
	return s
}

type dialer func(context.Context, string) (net.Conn, error)

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// tracked dials connections that cut breaks.
func (s *sidecar) tracked(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := dialTCP(ctx, addr)
	if err == nil {
		s.mu.Lock()
		s.open = append(s.open, conn)
		s.mu.Unlock()
	}
	return conn, err
}

func (s *sidecar) dial(by dialer) *grpc.ClientConn {
	conn, err := grpc.NewClient(s.server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(by))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// cut breaks every connection of the workers.
func (s *sidecar) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.open {
		conn.Close()
	}
	s.open = nil
}

func (s *sidecar) start(ctx context.Context) string {
	s.t.Helper()
	got, err := s.runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.GetRun().GetRunId()
}

// ended waits for the end of a run.
func (s *sidecar) ended(ctx context.Context, run string) *pawlv1.Run {
	s.t.Helper()
	for {
		got, err := s.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run}, grpc.WaitForReady(true))
		if err == nil && !got.GetTimedOut() {
			return got.GetRun()
		}
		if ctx.Err() != nil {
			s.t.Fatalf("run %s did not end: %v", run, err)
		}
	}
}

// work runs a worker until the test ends, or stop is called.
func (s *sidecar) work(ctx context.Context, cfg pawl.WorkerConfig) (stop func()) {
	s.t.Helper()
	cfg.Conn, cfg.Retry = s.conn, 5*time.Millisecond
	w, err := pawl.NewWorker(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// counting completes a run after so many visits, with a step in each.
func counting(visits int32, calls *atomic.Int64) (pawl.TurnFunc, pawl.ToolFunc) {
	turn := func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
		view := t.Assignment.GetTurn()
		if view.GetTerminal() {
			return pawl.Completion{}, nil
		}
		if _, err := t.Step(ctx, "", "add", `{"one": 1}`); err != nil {
			return pawl.Completion{}, err
		}
		if err := t.Output(ctx, "counting"); err != nil {
			return pawl.Completion{}, err
		}
		if view.GetTurn().GetVisit() < visits {
			return pawl.Completion{Event: "More"}, nil
		}
		return pawl.Completion{Event: "Enough"}, nil
	}
	tool := func(context.Context, *pawl.Step) (json.RawMessage, error) {
		calls.Add(1)
		return json.RawMessage(`2`), nil
	}
	return turn, tool
}

// TestRuns: a worker executes turns and tools of several runs to their ends.
func TestRuns(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	var calls atomic.Int64
	turn, tool := counting(5, &calls)
	stop := s.work(ctx, pawl.WorkerConfig{
		ID: "w", Prompts: map[string]pawl.TurnFunc{"counter": turn}, Tools: map[string]pawl.ToolFunc{"add": tool}, Turns: 4, Steps: 4,
	})
	var runs []string
	for range 8 {
		runs = append(runs, s.start(ctx))
	}
	for _, run := range runs {
		if got := s.ended(ctx, run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || got.GetToolCalls() != 5 || got.GetTotalVisits() != 6 {
			t.Fatalf("ended %v", got)
		}
	}
	stop()
	if calls.Load() != 40 {
		t.Fatalf("the tool ran %d times, want 40", calls.Load())
	}
}

// TestCutWire: a worker whose connection breaks repeatedly continues its turns. No attempt is counted,
// and no visit or tool call happens twice.
func TestCutWire(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	var calls, visits atomic.Int64
	turn, tool := counting(40, &calls)
	stop := s.work(ctx, pawl.WorkerConfig{
		ID: "w", Turns: 2, Steps: 2, Tools: map[string]pawl.ToolFunc{"add": tool},
		Prompts: map[string]pawl.TurnFunc{"counter": func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
			if visits.Add(1)%10 == 0 {
				s.cut()
			}
			return turn(ctx, t)
		}},
	})
	defer stop()
	run := s.start(ctx)
	got := s.ended(ctx, run)
	if got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || got.GetTotalVisits() != 41 || got.GetToolCalls() != 40 {
		t.Fatalf("ended %v", got)
	}
	if calls.Load() != 40 {
		t.Fatalf("the tool ran %d times for 40 steps", calls.Load())
	}
}

// TestFailures: what a handler fails with is recorded, retried or final.
func TestFailures(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	told := make(chan error, 2)
	defer s.work(ctx, pawl.WorkerConfig{
		OnError: func(err error) { told <- err },
		ID:      "w", Prompts: map[string]pawl.TurnFunc{"*": func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
			if t.Assignment.GetTurn().GetTurn().GetAttempt() == 1 {
				return pawl.Completion{Event: "Nonsense"}, nil
			}
			return pawl.Completion{}, &pawl.Failure{Code: "NO_MODEL", Message: "gone", Final: true}
		}},
	})()
	run := s.start(ctx)
	if got := s.ended(ctx, run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_FAILED || got.GetReason() != "turn_failed" {
		t.Fatalf("ended %v", got)
	}
	list, err := s.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_FAILED}})
	if err != nil || len(list.GetRecords()) != 2 {
		t.Fatalf("failures %v, %v", list, err)
	}
	for i, code := range []string{"UNKNOWN_EVENT", "NO_MODEL"} {
		if got := list.GetRecords()[i].GetTurnFailed().GetError().GetCode(); got != code {
			t.Errorf("failure %d has code %s, want %s", i, got, code)
		}
		select {
		case err := <-told:
			if !strings.Contains(err.Error(), code) {
				t.Errorf("the worker was told %v, want %s", err, code)
			}
		case <-ctx.Done():
			t.Fatalf("the worker was not told of failure %d", i)
		}
	}
}

// TestStop: a worker that stops finishes what it has, and its run goes on at
// another one.
func TestStop(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	begun, finish := make(chan struct{}, 100), make(chan struct{})
	slow := func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
		begun <- struct{}{}
		<-finish
		return pawl.Completion{Event: "More"}, nil
	}
	stop := s.work(ctx, pawl.WorkerConfig{ID: "first", Prompts: map[string]pawl.TurnFunc{"counter": slow}})
	run := s.start(ctx)
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	close(finish)
	<-stopped
	var calls atomic.Int64
	turn, tool := counting(3, &calls)
	defer s.work(ctx, pawl.WorkerConfig{ID: "second", Prompts: map[string]pawl.TurnFunc{"*": turn}, Tools: map[string]pawl.ToolFunc{"*": tool}})()
	if got := s.ended(ctx, run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || got.GetTurn().GetAttempt() > 1 {
		t.Fatalf("ended %v", got)
	}
}

// TestStopsAmongAssignments: a worker may stop while assignments are in flight. It executes none of
// them after it stopped, and the next worker finishes every run.
func TestStopsAmongAssignments(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	started := make(chan struct{}, 100)
	var running atomic.Int64
	config := func(id int) pawl.WorkerConfig {
		return pawl.WorkerConfig{ID: fmt.Sprint(id), Turns: 1, Prompts: map[string]pawl.TurnFunc{
			"*": func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
				defer running.Add(-1)
				running.Add(1)
				select {
				case started <- struct{}{}:
				default:
				}
				if t.Assignment.GetTurn().GetTerminal() {
					return pawl.Completion{}, nil
				}
				return pawl.Completion{Event: "Enough"}, nil
			},
		}}
	}
	const workers = 50
	var runs []string
	for id := range workers {
		for len(started) > 0 {
			<-started
		}
		stop := s.work(ctx, config(id))
		runs = append(runs, s.start(ctx))
		<-started
		runs = append(runs, s.start(ctx))
		stop()
		if left := running.Load(); left != 0 {
			t.Fatalf("worker %d has stopped, and executes %d turns", id, left)
		}
	}
	defer s.work(ctx, config(workers))()
	for _, run := range runs {
		if got := s.ended(ctx, run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			t.Fatalf("run %s: %v", run, got)
		}
	}
}

// TestGrace: a worker stops while its turn waits for a step that no other worker executes. It returns
// both, and another worker continues the run.
func TestGrace(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	var calls atomic.Int64
	turn, tool := counting(3, &calls)
	waiting := make(chan struct{}, 1)
	stop := s.work(ctx, pawl.WorkerConfig{ID: "first", Grace: time.Millisecond, Prompts: map[string]pawl.TurnFunc{
		"counter": func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
			waiting <- struct{}{}
			return turn(ctx, t)
		},
	}})
	run := s.start(ctx)
	<-waiting
	stop()
	defer s.work(ctx, pawl.WorkerConfig{ID: "second", Prompts: map[string]pawl.TurnFunc{"*": turn}, Tools: map[string]pawl.ToolFunc{"*": tool}})()
	got := s.ended(ctx, run)
	if got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || got.GetTurn().GetAttempt() > 1 || calls.Load() != 3 {
		t.Fatalf("ended %v after %d calls of the tool", got, calls.Load())
	}
}

// TestTooLarge: what no message can hold fails the attempt and leaves the stream.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	large := []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: strings.Repeat("x", 10<<20)}}}
	defer s.work(ctx, pawl.WorkerConfig{
		ID: "w", Prompts: map[string]pawl.TurnFunc{"*": func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
			if t.Assignment.GetTurn().GetTurn().GetAttempt() == 1 {
				return pawl.Completion{Output: large}, nil
			}
			return pawl.Completion{}, &pawl.Failure{Code: "ENOUGH", Final: true}
		}},
	})()
	run := s.start(ctx)
	s.ended(ctx, run)
	list, err := s.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_FAILED}})
	if err != nil || list.GetRecords()[0].GetTurnFailed().GetError().GetCode() != "MESSAGE_TOO_LARGE" {
		t.Fatalf("failures %v, %v", list, err)
	}
}

// TestReplaced: a worker ends when another worker registers with its id.
func TestReplaced(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	begun := make(chan struct{}, 2)
	cfg := pawl.WorkerConfig{Conn: s.conn, ID: "twin", Grace: time.Millisecond, Prompts: map[string]pawl.TurnFunc{
		"*": func(ctx context.Context, _ *pawl.Turn) (pawl.Completion, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return pawl.Completion{}, ctx.Err()
		},
	}}
	first, err := pawl.NewWorker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	s.start(ctx)
	select {
	case <-begun:
	case <-ctx.Done():
		t.Fatal("the first worker got no turn")
	}
	defer s.work(ctx, cfg)()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "WORKER_REPLACED") {
			t.Fatalf("ended with %v", err)
		}
	case <-ctx.Done():
		t.Fatal("a worker that was replaced did not end")
	}
}

// TestRefused: a registration that cannot be taken ends the worker.
func TestRefused(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), testContext(t)
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: s.conn, ID: "w", Prompts: map[string]pawl.TurnFunc{"poet": nil}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err == nil {
		t.Fatal("a worker of an unknown prompt ran")
	}
	if _, err := pawl.NewWorker(pawl.WorkerConfig{ID: "w"}); err == nil {
		t.Fatal("a worker without a connection was made")
	}
}
