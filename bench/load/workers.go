package load

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/bench/load/host"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// workerRuns is how many runs one worker process serves at once.
const workerRuns = 64

// workerJob asks a worker process to execute the turns of a number of runs and to
// measure them. The programs in bench/ read it, too.
type workerJob struct {
	Target string `json:"target"`
	// Runs is also how many turns it holds at once.
	Runs int `json:"runs"`
	// WarmMs and WindowMs begin with the first turn.
	WarmMs   int64  `json:"warm_ms"`
	WindowMs int64  `json:"window_ms"`
	Event    string `json:"event"`
	Artifact string `json:"artifact"`
	Bytes    int    `json:"bytes"`
}

// workerResult is the turns/s of a worker process, and the round trip of a turn:
// from its assignment over its completion to the assignment of the run's next.
type workerResult struct {
	PerSec float64 `json:"per_sec"`
	P50us  float64 `json:"p50_us"`
	P99us  float64 `json:"p99_us"`
}

// workersPart measures turns through workers beside EmitEvent in the same rounds.
func (s *suite) workersPart(ctx context.Context) (Samples, error) {
	arms := []arm{
		{"EmitEvent beside workers", func(int) (map[string]float64, error) { return s.besideArm(ctx) }},
		{"Go worker", func(int) (map[string]float64, error) { return s.workerArm(ctx, goWorker) }},
	}
	for _, lang := range s.foreign {
		arms = append(arms, arm{lang.Name + " worker", func(int) (map[string]float64, error) { return s.workerArm(ctx, lang) }})
	}
	all, err := interleave(s.sizes.Rounds, arms, s.logRound)
	if err != nil {
		return all, err
	}
	more, err := interleave(s.sizes.Rounds, []arm{
		{"a killed worker", func(int) (map[string]float64, error) { return s.reassignArm(ctx) }},
	}, s.logRound)
	all.merge(more)
	if err != nil {
		return all, err
	}
	more, err = interleave(1, []arm{
		{"idle workers", func(int) (map[string]float64, error) { return s.idleWorkersArm(ctx) }},
	}, s.logRound)
	all.merge(more)
	return all, err
}

func (s *suite) besideArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.onServer(ctx, "serve", func(target string) error {
		many, err := s.load(ctx, s.job("emit", target, workerRuns))
		if err != nil {
			return err
		}
		alone, err := s.load(ctx, s.job("emit", target, 1))
		out["worker_emit_tps"], out["worker_emit_p50_us"] = many.PerSec, alone.P50us
		return err
	})
	return out, err
}

// workerArm measures one run, then many, through one worker process each.
func (s *suite) workerArm(ctx context.Context, lang language) (map[string]float64, error) {
	out := map[string]float64{}
	for _, runs := range []int{1, workerRuns} {
		got, err := s.workerTurns(ctx, lang, runs)
		if err != nil {
			return out, err
		}
		if runs == 1 {
			out["worker_turn_p50_us_"+lang.Name], out["worker_turn_p99_us_"+lang.Name] = got.P50us, got.P99us
		} else {
			out["worker_turns_tps_"+lang.Name] = got.PerSec
		}
	}
	return out, nil
}

func (s *suite) workerTurns(ctx context.Context, lang language, runs int) (workerResult, error) {
	var result workerResult
	err := s.workerServer(ctx, func(_ *child, target string) error {
		if err := startWorkerRuns(ctx, target, runs); err != nil {
			return err
		}
		c, err := s.startWorker(ctx, lang)
		if err != nil {
			return err
		}
		defer c.stop()
		return c.call(ctx, s.turnsJob(target, runs), &result)
	})
	return result, err
}

// turnsJob is the turns of so many runs, by the sizes of the bench.
func (s *suite) turnsJob(target string, runs int) workerJob {
	return workerJob{
		Target: target, Runs: runs, Event: eventName, Artifact: artifactName, Bytes: s.sizes.ArtifactBytes,
		WarmMs: s.sizes.warm().Milliseconds(), WindowMs: s.sizes.window().Milliseconds(),
	}
}

// workerServer runs use against a sidecar whose runs may go on for as long as it
// takes.
func (s *suite) workerServer(ctx context.Context, use func(server *child, target string) error) error {
	dir, cleanup, err := tempDir(s.root, "workers")
	if err != nil {
		return err
	}
	defer cleanup()
	server, target, err := s.server(ctx, "serve", s.serveArgs(dir, "--limits-max-transitions", "1000000000")...)
	if err != nil {
		return err
	}
	defer server.stop()
	return use(server, target)
}

// startWorkerRuns starts runs that wait for workers.
func startWorkerRuns(ctx context.Context, target string, runs int) error {
	conns, closeAll, err := dial(target, 1)
	if err != nil {
		return err
	}
	defer closeAll()
	for range runs {
		if err := startWorkerRun(ctx, conns[0]); err != nil {
			return err
		}
	}
	return nil
}

func startWorkerRun(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := pawlv1.NewRunServiceClient(conn).StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: packLoop, Execution: pawlv1.Execution_EXECUTION_WORKERS,
	})
	return err
}

// reassignArm kills a worker that holds a turn and times when another one has it.
func (s *suite) reassignArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.workerServer(ctx, func(_ *child, target string) error {
		first, err := s.holder(ctx, target, "first")
		if err != nil {
			return err
		}
		defer first.stop()
		if err := startWorkerRuns(ctx, target, 1); err != nil {
			return err
		}
		var turn heldTurn
		if err := first.next(ctx, &turn); err != nil {
			return err
		}
		second, err := s.holder(ctx, target, "second")
		if err != nil {
			return err
		}
		defer second.stop()
		killed := time.Now()
		first.kill()
		if err := second.next(ctx, &turn); err != nil {
			return err
		}
		out["reassign_ms"] = millis(time.Unix(0, turn.At).Sub(killed))
		return nil
	})
	return out, err
}

// holder starts a worker that keeps what it gets, and waits until it is
// registered.
func (s *suite) holder(ctx context.Context, target, id string) (*child, error) {
	c, err := s.start(ctx, "hold", target, id, "1")
	if err != nil {
		return nil, err
	}
	var up ready
	if err := c.next(ctx, &up); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// idleWorkersArm measures what connected workers without work cost.
func (s *suite) idleWorkersArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.workerServer(ctx, func(server *child, target string) error {
		pause(ctx, idleSettle, nil)
		before, err := host.RSSMB(server.cmd.Process.Pid)
		if err != nil {
			return err
		}
		idle, err := s.start(ctx, "idle-workers", target, fmt.Sprint(s.sizes.IdleWorkers))
		if err != nil {
			return err
		}
		defer idle.stop()
		var up ready
		if err := idle.next(ctx, &up); err != nil {
			return err
		}
		pause(ctx, idleSettle, nil)
		after, err := host.RSSMB(server.cmd.Process.Pid)
		out["idle_workers_rss_mb"] = after - before
		return err
	})
	return out, err
}
