package load

import (
	"context"
	"fmt"
)

// watchedRuns is how many runs move while they are watched.
const watchedRuns = 64

// watchersPart compares throughput under watchers with throughput without.
func (s *suite) watchersPart(ctx context.Context) (Samples, error) {
	raw, err := interleave(s.sizes.Rounds, []arm{
		{"no watchers", func(int) (map[string]float64, error) { return s.unwatchedArm(ctx) }},
		{"watchers that never read", func(int) (map[string]float64, error) { return s.idleWatchersArm(ctx) }},
		{"watchers that read", func(int) (map[string]float64, error) { return s.readersArm(ctx) }},
	}, s.logRound)
	return Samples{
		"watcher_ratio":     raw.ratio("idle", "none"),
		"fanout_ratio":      raw.ratio("read", "none"),
		"fanout_lag_p99_ms": raw["lag"],
	}, err
}

func (s *suite) unwatchedArm(ctx context.Context) (map[string]float64, error) {
	got, err := s.measureLoad(ctx, "emit", watchedRuns)
	return map[string]float64{"none": got.PerSec}, err
}

func (s *suite) idleWatchersArm(ctx context.Context) (map[string]float64, error) {
	got, _, err := s.measureWatched(ctx, watchJob{Watchers: s.sizes.IdleWatchers})
	return map[string]float64{"idle": got.PerSec}, err
}

func (s *suite) readersArm(ctx context.Context) (map[string]float64, error) {
	got, seen, err := s.measureWatched(ctx, watchJob{Watchers: s.sizes.Readers, Read: true})
	return map[string]float64{"read": got.PerSec, "lag": seen.LagP99ms}, err
}

// fill keeps a server busy until watchers that never read accept no more data. What their buffers
// accept once is not a cost of an unread stream.
func (s *suite) fill(ctx context.Context, target string, watch *child) error {
	load, err := s.start(ctx, "load")
	if err != nil {
		return err
	}
	defer load.stop()
	job := s.job("emit", target, watchedRuns)
	job.Warm, job.Window = 0, 0
	if err := load.send(job); err != nil {
		return err
	}
	if err := watch.call(ctx, watchEnd{Fill: true}, &watchResult{}); err != nil {
		return fmt.Errorf("fill watchers: %w", err)
	}
	return load.call(ctx, "enough", &loadResult{})
}

// measureWatched loads a server under watchers and checks that readers got every
// record: one for each run's entry and one for each event.
func (s *suite) measureWatched(ctx context.Context, job watchJob) (got loadResult, seen watchResult, err error) {
	err = s.onServer(ctx, "serve", func(target string) error {
		watch, err := s.start(ctx, "watch")
		if err != nil {
			return err
		}
		defer watch.stop()
		job.Target, job.Connections = target, s.sizes.Connections
		if err := watch.call(ctx, job, &seen); err != nil {
			return fmt.Errorf("open watchers: %w", err)
		}
		if !job.Read {
			if err := s.fill(ctx, target, watch); err != nil {
				return err
			}
		}
		if got, err = s.load(ctx, s.job("emit", target, watchedRuns)); err != nil {
			return err
		}
		return watch.call(ctx, watchEnd{Expect: got.Total + got.Started}, &seen)
	})
	return got, seen, err
}
