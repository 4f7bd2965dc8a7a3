package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"context"
	"fmt"
	"strconv"

	"github.com/pawl-dev/pawl/bench/load/host"
)

// millionPart starts a sidecar over very many waiting runs, and one over nothing, and
// drives one live run on each.
func (s *suite) millionPart(ctx context.Context) (Samples, error) {
	dir, cleanup, err := tempDir(s.root, "million")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	if err := s.seed(ctx, dir, seedJob{Runs: s.sizes.ManyRuns}); err != nil {
		return nil, err
	}
	samples, err := interleave(s.sizes.Restarts, []arm{
		{"one run alone", func(int) (map[string]float64, error) { return s.baselineArm(ctx) }},
		{fmt.Sprintf("one run among %d", s.sizes.ManyRuns), func(int) (map[string]float64, error) { return s.millionArm(ctx, dir) }},
	}, s.logRound)
	samples["million_emit_ratio"] = samples.ratio("million_emit_p50_us", "alone_emit_p50_us")
	return samples, err
}

// millionArm serves over what the last process left, and leaves by SIGKILL.
func (s *suite) millionArm(ctx context.Context, dir string) (map[string]float64, error) {
	return s.overMany(ctx, "million", s.serveArgs(dir))
}

// overMany is the start of a sidecar with args over them, and one run that is driven then.
func (s *suite) overMany(ctx context.Context, name string, args []string) (map[string]float64, error) {
	up, err := s.timed(ctx, append(args, s.allowMany()...))
	if err != nil {
		return nil, err
	}
	defer up.server.kill()
	pause(ctx, idleSettle, nil)
	rss, err := host.RSSMB(up.server.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	got, err := s.load(ctx, s.job("emit", up.target, 1))
	return map[string]float64{name + "_ready_ms": up.readyMs, name + "_rss_mb": rss, name + "_emit_p50_us": got.P50us}, err
}

// allowMany is said because they are as many as a sidecar has in flight by default.
func (s *suite) allowMany() []string {
	return []string{"--limits-runs-in-flight", strconv.Itoa(2 * s.sizes.ManyRuns)}
}

func (s *suite) baselineArm(ctx context.Context) (map[string]float64, error) {
	got, err := s.measureLoad(ctx, "emit", 1)
	return map[string]float64{"alone_emit_p50_us": got.P50us}, err
}

// millions are the figures of millionPart.
func millions() []figure {
	return []figure{
		figureWithBar("million_ready_ms", "ms", "start over a million waiting runs, ready", stat.AtMost(3000)),
		figureWithBar("million_rss_mb", "MB", "RSS after that start", stat.AtMost(400)),
		figureWithBar("million_emit_ratio", "x", "EmitEvent among them, p50, against an empty store", stat.AtMost(1.3)),
	}
}
