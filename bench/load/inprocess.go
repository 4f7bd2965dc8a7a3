package load

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/bench/load/many"
)

// naiveWriters and bareWriters are how many commit at once to the yardsticks.
const (
	naiveWriters = 64
	bareWriters  = 256
)

// inProcessPart compares the engine with its own committer and with Badger
// written naively, all without a wire.
func (s *suite) inProcessPart(ctx context.Context) (Samples, error) {
	commits := func(name, kind string, writers int, metric string) arm {
		return arm{name, func(int) (map[string]float64, error) {
			got, err := s.commits(ctx, kind, writers, nil)
			out := map[string]float64{metric: got.PerSec}
			if kind == "bare" {
				out["keys_per_transition"] = got.Keys
			}
			return out, err
		}}
	}
	arms := []arm{
		commits("naive", "naive", naiveWriters, "naive_tps"),
		commits("bare committer", "bare", bareWriters, "bare_tps_256"),
	}
	for _, runs := range []int{256, 64, 16, 1} {
		arms = append(arms, commits(fmt.Sprintf("engine, %d runs", runs), "engine", runs, fmt.Sprintf("engine_tps_%d", runs)))
	}
	return interleave(s.sizes.Rounds, arms, s.logRound)
}

// commits does one job in a process and a directory of its own.
func (s *suite) commits(ctx context.Context, kind string, writers int, place *many.Location) (commitResult, error) {
	var result commitResult
	err := s.inDirectory(ctx, "commit", func(c *child, dir string) error {
		return c.call(ctx, commitJob{
			Kind: kind, Dir: dir, Writers: writers,
			Warm: s.sizes.warm(), Window: s.sizes.window(), Bytes: s.sizes.ArtifactBytes, Place: place,
		}, &result)
	})
	return result, err
}
