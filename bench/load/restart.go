package load

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/bench/load/host"
)

// overdueBehind is how long ago the overdue runs began: their deadline is a day.
const overdueBehind = 48 * time.Hour

// restartPart starts a sidecar, again and again after SIGKILL, over many runs
// that wait.
func (s *suite) restartPart(ctx context.Context) (Samples, error) {
	dir, cleanup, err := tempDir(s.root, "restart")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	if err := s.seed(ctx, dir, seedJob{Runs: s.sizes.WaitingRuns}); err != nil {
		return nil, err
	}
	return interleave(s.sizes.Restarts, []arm{
		{"restart after SIGKILL", func(int) (map[string]float64, error) { return s.restartArm(ctx, dir) }},
	}, s.logRound)
}

// seed fills the data directory of dir and kills the process that did it.
func (s *suite) seed(ctx context.Context, dir string, job seedJob) error {
	s.logf("seed %d runs", job.Runs)
	c, err := s.start(ctx, "seed")
	if err != nil {
		return err
	}
	defer c.kill()
	var done seedResult
	job.Dir = filepath.Join(dir, "data")
	return c.call(ctx, job, &done)
}

// restartArm serves over what the last process left, and leaves by SIGKILL too.
func (s *suite) restartArm(ctx context.Context, dir string) (map[string]float64, error) {
	up, err := s.timedStart(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer up.server.kill()
	pause(ctx, idleSettle, nil)
	rss, err := host.RSSMB(up.server.cmd.Process.Pid)
	return map[string]float64{"restart_ready_ms": up.readyMs, "restart_rss_mb": rss}, err
}

// overduePart starts sidecars over runs whose deadlines all passed while none
// ran, each on data of its own: every run can be ended only once.
func (s *suite) overduePart(ctx context.Context) (Samples, error) {
	return interleave(s.sizes.Restarts, []arm{
		{"restart with all deadlines passed", func(int) (map[string]float64, error) { return s.overdueArm(ctx) }},
	}, s.logRound)
}

func (s *suite) overdueArm(ctx context.Context) (map[string]float64, error) {
	dir, cleanup, err := tempDir(s.root, "overdue")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	if err := s.seed(ctx, dir, seedJob{Runs: s.sizes.WaitingRuns, Behind: overdueBehind}); err != nil {
		return nil, err
	}
	up, err := s.timedStart(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer up.server.stop()
	ends, live, err := s.overdue(ctx, up.target)
	if err != nil {
		return nil, err
	}
	took := time.Duration(ends.LastAt - ends.FirstAt)
	return map[string]float64{
		"overdue_ready_ms":    up.readyMs,
		"overdue_ended_tps":   float64(ends.Records) / took.Seconds(),
		"overdue_live_p99_ms": live.P99us / 1e3,
	}, nil
}

// overdue drives one live run until every overdue one has ended.
func (s *suite) overdue(ctx context.Context, target string) (ends watchResult, live loadResult, err error) {
	load, err := s.start(ctx, "load")
	if err != nil {
		return ends, live, err
	}
	defer load.stop()
	job := s.job("emit", target, 1)
	job.Warm, job.Window = 0, 0
	if err := load.send(job); err != nil {
		return ends, live, err
	}
	ends, err = s.awaitEnds(ctx, target)
	if err != nil {
		return ends, live, err
	}
	if err := load.call(ctx, "enough", &live); err != nil {
		return ends, live, fmt.Errorf("live run: %w", err)
	}
	return ends, live, nil
}

// awaitEnds follows the ends of all seeded runs.
func (s *suite) awaitEnds(ctx context.Context, target string) (watchResult, error) {
	var seen watchResult
	watch, err := s.start(ctx, "watch")
	if err != nil {
		return seen, err
	}
	defer watch.stop()
	if err := watch.call(ctx, watchJob{Target: target, Connections: 1, Watchers: 1, Read: true, Ended: true}, &seen); err != nil {
		return seen, err
	}
	err = watch.call(ctx, watchEnd{Expect: uint64(s.sizes.WaitingRuns)}, &seen)
	return seen, err
}
