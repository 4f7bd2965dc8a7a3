package load

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/bench/load/host"
)

// wirePart compares EmitEvent with what the same wire and the same disk give
// without an engine.
func (s *suite) wirePart(ctx context.Context) (Samples, error) {
	return interleave(s.sizes.Rounds, []arm{
		{"fsync", func(int) (map[string]float64, error) { return s.fsyncArm() }},
		{"echo", func(int) (map[string]float64, error) { return s.echoArm(ctx) }},
		{"bare handler", func(int) (map[string]float64, error) { return s.bareHandlerArm(ctx) }},
		{"served runs", func(int) (map[string]float64, error) { return s.serveArm(ctx) }},
		{"EmitEvent", func(int) (map[string]float64, error) { return s.emitArm(ctx) }},
	}, s.logRound)
}

func (s *suite) fsyncArm() (map[string]float64, error) {
	p50, err := host.FsyncP50(s.root, s.sizes.Fsyncs)
	return map[string]float64{"fsync_p50_us": micros(p50)}, err
}

func (s *suite) echoArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.onServer(ctx, "echo", func(target string) error {
		many, err := s.load(ctx, s.job("echo", target, 64))
		if err != nil {
			return err
		}
		alone, err := s.load(ctx, s.job("echo", target, 1))
		out["echo_rps"], out["echo_p50_us"] = many.PerSec, alone.P50us
		return err
	})
	return out, err
}

func (s *suite) bareHandlerArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.onServer(ctx, "bare", func(target string) error {
		many, err := s.load(ctx, s.job("emit", target, 64))
		if err != nil {
			return err
		}
		alone, err := s.load(ctx, s.job("emit", target, 1))
		out["bare_emit_tps_64"], out["bare_emit_p50_us_1"] = many.PerSec, alone.P50us
		return err
	})
	return out, err
}

func (s *suite) serveArm(ctx context.Context) (map[string]float64, error) {
	got, err := s.measureLoad(ctx, "serve", 64)
	return map[string]float64{"serve_tps_64": got.PerSec, "serve_p50_us_64": got.P50us}, err
}

// emitArm loads in the order of the bare handler's arm first, so that both meet
// a store of the same age.
func (s *suite) emitArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.onServer(ctx, "serve", func(target string) error {
		for _, runs := range []int{64, 1, 16, 256} {
			got, err := s.load(ctx, s.job("emit", target, runs))
			if err != nil {
				return fmt.Errorf("%d runs: %w", runs, err)
			}
			out[fmt.Sprintf("emit_tps_%d", runs)] = got.PerSec
			switch runs {
			case 64:
				out["emit_p50_us_64"], out["emit_p99_us_64"] = got.P50us, got.P99us
			case 1:
				out["emit_p50_us_1"] = got.P50us
			}
		}
		return nil
	})
	return out, err
}
