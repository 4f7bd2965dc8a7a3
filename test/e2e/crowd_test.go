package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit"
)

// scaleCrowd is n at PAWL_CROWD=100; by default two hundredths of it.
func scaleCrowd(n int) int {
	percent := 2
	if p, err := strconv.Atoi(os.Getenv("PAWL_CROWD")); err == nil {
		percent = p
	}
	return max(n*percent/100, 8)
}

// crowdMemory is what the process may take, of memory that no file backs, for a crowd of n
// with this much for each: 256 MiB besides.
func crowdMemory(n int, each int64) int64 { return 256<<20 + int64(n)*each }

// atOnce does so for 0 to n-1, 64 at a time.
func atOnce(n int, do func(int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(64, n) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	all.Wait()
}

// awaitGoroutines waits until the process has as many goroutines as before a crowd, give or take
// what it may keep for the next one.
func awaitGoroutines(t *testing.T, s *sidecar, before sample) {
	t.Helper()
	eventually(t, "the goroutines of the crowd end", func() bool {
		now, err := take(s)
		return err == nil && now.goroutines <= before.goroutines+64
	})
}

func sampled(t *testing.T, s *sidecar) sample {
	t.Helper()
	got, err := take(s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// checkBound holds a sample to the bound of its crowd.
func checkBound(t *testing.T, name string, n int, each int64, got sample) {
	t.Helper()
	testkit.ReportTried(t, n, name)
	t.Logf("crowd: %d %s: memory %d MiB, %d goroutines", n, name, got.memory>>20, got.goroutines)
	if bound := crowdMemory(n, each); got.memory > bound {
		t.Errorf("%d %s take %d MiB, at most %d", n, name, got.memory>>20, bound>>20)
	}
}

// TestCrowdOfConnections: each of 5 000 connections makes a run and ends it, and none of
// them is felt when they are gone.
func TestCrowdOfConnections(t *testing.T) {
	t.Parallel()
	n := scaleCrowd(5000)
	s := newSidecar(t, "--pack", "testdata/loop.pack.yaml", "--metrics", "127.0.0.1:0")
	s.start()
	before := sampled(t, s)
	ctx := deadline(t, 3*patience)
	conns := make([]*grpc.ClientConn, n)
	l := &live{t: t, s: s}
	atOnce(n, func(i int) {
		conns[i] = s.dial()
		l.run(ctx, pawlv1.NewRunServiceClient(conns[i]))
	})
	full := sampled(t, s)
	if full.descriptors < int64(n) {
		t.Errorf("%d descriptors for %d connections", full.descriptors, n)
	}
	atOnce(n, func(i int) { conns[i].Close() })
	checkBound(t, "connections", n, 256<<10, full)
	awaitGoroutines(t, s, before)
	if l.runs.Load() != int64(n) {
		t.Errorf("%d runs of %d ended", l.runs.Load(), n)
	}
}

// TestCrowdOfSlowReaders: 2 000 readers of everything, who read nothing, cost neither those
// who write nor memory without bound; each can go on where it stopped.
func TestCrowdOfSlowReaders(t *testing.T) {
	t.Parallel()
	n := scaleCrowd(2000)
	s := newSidecar(t, "--pack", "testdata/loop.pack.yaml", "--metrics", "127.0.0.1:0")
	s.start()
	before := sampled(t, s)
	ctx, cancel := context.WithCancel(deadline(t, 3*patience))
	defer cancel()
	runs := s.runs()
	streams := make([]grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse], n)
	conns := make([]*grpc.ClientConn, n)
	// The windows do not grow. Otherwise the client would accept data that it does not read.
	const window = 64 << 10
	atOnce(n, func(i int) {
		conns[i] = s.dial(grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
		stream, err := pawlv1.NewRunServiceClient(conns[i]).StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Follow: true, Snapshots: true})
		if err != nil {
			t.Errorf("reader %d: %v", i, err)
		}
		streams[i] = stream
	})
	l := &live{t: t, s: s}
	atOnce(n, func(int) { l.run(ctx, runs) })
	checkBound(t, "readers that read nothing", n, 640<<10, sampled(t, s))
	if t.Failed() {
		return
	}
	for _, i := range []int{0, n / 2, n - 1} {
		if ended := readEnds(t, streams[i], n); ended != n {
			t.Errorf("reader %d was shown the end of %d runs, want %d", i, ended, n)
		}
	}
	cancel()
	atOnce(n, func(i int) { conns[i].Close() })
	awaitGoroutines(t, s, before)
}

// readEnds reads until n runs have ended.
func readEnds(t *testing.T, stream grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse], n int) (ended int) {
	t.Helper()
	for ended < n {
		item, err := stream.Recv()
		if err != nil {
			t.Error(err)
			return ended
		}
		if item.GetRecord().GetEnded() != nil {
			ended++
		}
	}
	return ended
}

// TestCrowdOfWorkers: 10 000 workers come and go, 64 at once; what one of them had goes to the
// next, and every run ends with its totals.
func TestCrowdOfWorkers(t *testing.T) {
	t.Parallel()
	n := scaleCrowd(10_000)
	s := newSidecar(t, "--pack", "testdata/count.json", "--allow-tool", "*", "--metrics", "127.0.0.1:0")
	s.start()
	before := sampled(t, s)
	ctx := deadline(t, 5*patience)
	runs := s.runs()
	var started []string
	for range max(n/100, 8) {
		got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_WORKERS})
		if err != nil {
			t.Fatal(err)
		}
		started = append(started, got.GetRun().GetRunId())
	}
	c := &counter{calls: map[string]int{}}
	tools := startWorker(ctx, t, s, pawl.WorkerConfig{ID: "tools", Steps: 8, Tools: map[string]pawl.ToolFunc{"add": c.add}})
	defer tools()
	atOnce(n, func(i int) {
		conn := s.dial()
		c.comeAndGo(ctx, t, conn, i)
		conn.Close()
	})
	checkBound(t, "workers that came and went", n, 16<<10, sampled(t, s))
	stop := startCounters(ctx, t, s, c)
	for _, run := range started {
		c.verify(ctx, t, runs, run)
	}
	stop()
	tools()
	awaitGoroutines(t, s, before)
}

// comeAndGo is a worker that leaves after its first turn. If its number is even, it leaves as soon
// as it is connected, even if it has work.
func (c *counter) comeAndGo(ctx context.Context, t *testing.T, conn *grpc.ClientConn, i int) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if i%2 == 0 {
		registerIdleWorker(ctx, t, conn, i)
		return
	}
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		Conn: conn, ID: fmt.Sprintf("crowd-%d", i), Turns: 1, Retry: 20 * time.Millisecond, Grace: 10 * time.Millisecond,
		Prompts: map[string]pawl.TurnFunc{"*": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
			defer leave()
			return c.turn(ctx, turn)
		}},
	})
	if err != nil {
		t.Error(err)
		return
	}
	if err := w.Run(ctx); err != nil {
		t.Errorf("worker %d: %v", i, err)
	}
}

// registerIdleWorker registers a worker with room for a turn, which says no word more.
func registerIdleWorker(ctx context.Context, t *testing.T, conn *grpc.ClientConn, i int) {
	stream, err := pawlv1.NewWorkerServiceClient(conn).Work(ctx)
	if err == nil {
		id := fmt.Sprintf("crowd-%d", i)
		err = stream.Send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Register{Register: &pawlv1.WorkerRegistration{
			WorkerId: id, Instance: id, Client: "crowd", Prompts: []string{"*"}, TurnCapacity: 1,
		}}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Errorf("worker %d: %v", i, err)
	}
}

// timed is a pack whose run is moved by its state's timeout after so many seconds.
func timed(sec int) string {
	return fmt.Sprintf(`id: timed-%d
name: Timed
version: 1.0.0
template_engine: { version: v1, syntax: "{{variable}}" }
prompts: { p: { id: p, name: P, version: 1.0.0, system_template: "Wait." } }
workflow:
  version: 2
  entry: waits
  engine: { x_pawl: { timeouts: { waits: { after_sec: %d, event: Over } } } }
  states:
    waits: { prompt_task: p, on_event: { Over: end } }
    end: { prompt_task: p, terminal: true }
`, sec, sec)
}

// TestCrowdOfTimers: the timeouts of 20 000 runs come due within one second; each fires once,
// never early, and who drives another run meanwhile is served.
func TestCrowdOfTimers(t *testing.T) {
	t.Parallel()
	n := scaleCrowd(20_000)
	s := newSidecar(t, "--pack", "testdata/loop.pack.yaml", "--metrics", "127.0.0.1:0")
	s.start()
	ctx := deadline(t, 5*patience)
	conn := s.dial()
	runs, packs := pawlv1.NewRunServiceClient(conn), pawlv1.NewPackServiceClient(conn)
	lead := 5 + n/400
	for sec := 1; sec <= lead; sec++ {
		if _, err := packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(timed(sec)), Filename: "timed.yaml"}); err != nil {
			t.Fatal(err)
		}
	}
	due := time.Now().Add(time.Duration(lead) * time.Second)
	ids := make([]string, n)
	atOnce(n, func(i int) {
		sec := max(1, int(math.Ceil(time.Until(due).Seconds())))
		got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "timed-" + strconv.Itoa(sec), Execution: pawlv1.Execution_EXECUTION_CALLER})
		if err != nil {
			t.Errorf("run %d: %v", i, err)
			return
		}
		ids[i] = got.GetRun().GetRunId()
	})
	if late := time.Since(due); late > 0 {
		t.Logf("the last run was begun %v after the moment: fewer than %d are due in one second", late, n)
	}
	if t.Failed() {
		return
	}
	l := &live{t: t, s: s}
	var beside sync.WaitGroup
	beside.Go(func() {
		for !l.ended.Load() && !t.Failed() {
			l.run(ctx, runs)
		}
	})
	// The runs are read when they are due. No caller polls before.
	<-time.After(time.Until(due))
	lags := make([]time.Duration, n)
	atOnce(n, func(i int) { lags[i] = lagOf(ctx, t, runs, ids[i]) })
	l.ended.Store(true)
	beside.Wait()
	slices.Sort(lags)
	t.Logf("crowd: timers fired after p50 %v, p99 %v, last %v; %d runs were driven meanwhile", lags[n/2], lags[n*99/100], lags[n-1], l.runs.Load())
	checkBound(t, "timers in one second", n, 24<<10, sampled(t, s))
	if l.runs.Load() == 0 {
		t.Error("nobody was served meanwhile")
	}
}

// lagOf is how long after its time a run was moved, by its timeout and once.
func lagOf(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, id string) time.Duration {
	begun, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: id, AtSeq: 1})
	if err != nil {
		t.Errorf("run %s: %v", id, err)
		return 0
	}
	var all *pawlv1.ListTransitionsResponse
	eventually(t, "the run is moved", func() bool {
		all, err = runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: id})
		return err != nil || len(all.GetRecords()) > 1
	})
	if err != nil {
		t.Errorf("run %s: %v", id, err)
		return 0
	}
	moved := all.GetRecords()[1]
	if moved.GetCause() != pawlv1.Cause_CAUSE_TIMEOUT || moved.GetTransition().GetToState() != "end" || len(all.GetRecords()) != 2 {
		t.Errorf("run %s was moved so: %v, %d records", id, moved, len(all.GetRecords()))
	}
	lag := moved.GetAt().AsTime().Sub(begun.GetRun().GetStateTimeoutAt().AsTime())
	if lag < 0 {
		t.Errorf("run %s was moved %v before its time", id, -lag)
	}
	return lag
}
