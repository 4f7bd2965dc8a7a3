package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/bench/load/stat"
	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// heldTurn says when a worker got a turn, Unix nanoseconds.
type heldTurn struct {
	At int64 `json:"at"`
}

// workerChild executes turns as the reference worker, one job after the other.
func workerChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job workerJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		return executeTurns(ctx, job)
	})
}

// executeTurns works until the window is over, and says what it saw of it.
func executeTurns(ctx context.Context, job workerJob) (workerResult, error) {
	conns, closeAll, err := dial(job.Target, 1)
	if err != nil {
		return workerResult{}, err
	}
	defer closeAll()
	clock := newTurnClock(job)
	reply := pawl.Completion{Event: job.Event, Artifacts: []*pawlv1.ArtifactWrite{{
		Name: job.Artifact, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: strings.Repeat("x", job.Bytes)}},
	}}}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		Conn: conns[0], ID: "bench", Turns: job.Runs, Grace: time.Second,
		Prompts: map[string]pawl.TurnFunc{"*": func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
			if clock.noteAssignment(t.Assignment.GetLease().GetRunId(), time.Now()) {
				stop()
			}
			return reply, nil
		}},
	})
	if err != nil {
		return workerResult{}, err
	}
	if err := w.Run(ctx); err != nil {
		return workerResult{}, err
	}
	return clock.result(), nil
}

// turnClock times the assignments of each run. The measurement begins after the
// warm-up, which begins with the first turn.
type turnClock struct {
	warm, window time.Duration

	mu          sync.Mutex
	first, last time.Time
	assignedAt  map[string]time.Time
	latencies   stat.Histogram
}

func newTurnClock(job workerJob) *turnClock {
	return &turnClock{
		warm: time.Duration(job.WarmMs) * time.Millisecond, window: time.Duration(job.WindowMs) * time.Millisecond,
		assignedAt: make(map[string]time.Time),
	}
}

// noteAssignment notes an assignment. True: the window is over.
func (c *turnClock) noteAssignment(run string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first.IsZero() {
		c.first = now
	}
	since := now.Sub(c.first)
	if since > c.warm+c.window {
		return true
	}
	if before, ok := c.assignedAt[run]; ok && before.Sub(c.first) >= c.warm {
		c.latencies.Add(now.Sub(before))
		c.last = now
	}
	c.assignedAt[run] = now
	return false
}

func (c *turnClock) result() workerResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return workerResult{
		PerSec: float64(c.latencies.Count()) / c.window.Seconds(),
		P50us:  micros(c.latencies.Quantile(0.5)), P99us: micros(c.latencies.Quantile(0.99)),
	}
}

// holdChild is a worker that keeps the turns that it gets; its arguments are
// target, id and how many. It says ready, and when it gets one.
func holdChild(ctx context.Context, spec ChildSpec, w *wire) error {
	if len(spec.Args) != 3 {
		return fmt.Errorf("hold: %d arguments; want target, id and turns", len(spec.Args))
	}
	conns, closeAll, err := dial(spec.Args[0], 1)
	if err != nil {
		return err
	}
	defer closeAll()
	turns, err := strconv.Atoi(spec.Args[2])
	if err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	stream, err := register(ctx, conns[0], spec.Args[1], int32(turns))
	if err != nil {
		return err
	}
	w.send(ready{Ready: true, GRPC: spec.Args[0]})
	for {
		got, err := stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if got.GetTurn() != nil {
			w.send(heldTurn{At: time.Now().UnixNano()})
		}
	}
}

// register connects a worker of every prompt with credits for so many turns, and
// waits until it is registered.
func register(ctx context.Context, conn grpc.ClientConnInterface, id string, turns int32) (grpc.BidiStreamingClient[pawlv1.WorkRequest, pawlv1.WorkResponse], error) {
	stream, err := pawlv1.NewWorkerServiceClient(conn).Work(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Turns: turns},
		Item: &pawlv1.WorkRequest_Register{Register: &pawlv1.WorkerRegistration{
			WorkerId: id, Prompts: []string{"*"}, TurnCapacity: max(turns, 1),
		}},
	})
	if err != nil {
		return nil, err
	}
	_, err = stream.Recv()
	return stream, err
}

// idleWorkersChild connects workers without work, each over a connection of its
// own; its arguments are target and how many.
func idleWorkersChild(ctx context.Context, spec ChildSpec, w *wire) error {
	if len(spec.Args) != 2 {
		return fmt.Errorf("idle-workers: %d arguments; want target and number", len(spec.Args))
	}
	n, err := strconv.Atoi(spec.Args[1])
	if err != nil {
		return fmt.Errorf("idle-workers: %w", err)
	}
	conns, closeAll, err := dial(spec.Args[0], n)
	if err != nil {
		return err
	}
	defer closeAll()
	for i, conn := range conns {
		if _, err := register(ctx, conn, fmt.Sprint("idle-", i), 0); err != nil {
			return err
		}
	}
	w.send(ready{Ready: true, GRPC: spec.Args[0]})
	<-ctx.Done()
	return nil
}
