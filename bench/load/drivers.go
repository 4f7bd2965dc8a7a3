package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"context"
	"fmt"
)

// driverRuns is how many runs one program drives at once.
const driverRuns = 64

// driverJob asks a driver program to drive runs of a pack that it starts itself, and to
// measure their turns as a worker's are. The programs in bench/ read it.
type driverJob struct {
	workerJob
	Pack string `json:"pack"`
	// Mode is "stream", the client as it is, which serves its runs over one stream, or
	// "unary", a loop with a call for each request.
	Mode string `json:"mode"`
}

// driversPart measures turns of runs that the clients drive themselves, over a stream and
// call by call in the same rounds.
func (s *suite) driversPart(ctx context.Context) (Samples, error) {
	var arms []arm
	for _, lang := range s.foreign {
		if lang.Driver == nil {
			continue
		}
		for _, mode := range []string{"stream", "unary"} {
			arms = append(arms, arm{lang.Name + " driver, " + mode, func(int) (map[string]float64, error) { return s.driverArm(ctx, lang, mode) }})
		}
	}
	if len(arms) == 0 {
		return Samples{}, nil
	}
	return interleave(s.sizes.Rounds, arms, s.logRound)
}

func (s *suite) driverArm(ctx context.Context, lang language, mode string) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.workerServer(ctx, func(_ *child, target string) error {
		c, err := s.spawn(lang.Name+" driver", commandOf(ctx, lang.Driver))
		if err != nil {
			return err
		}
		defer c.stop()
		var result workerResult
		job := driverJob{workerJob: s.turnsJob(target, driverRuns), Pack: packLoop, Mode: mode}
		if err := c.call(ctx, job, &result); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		out[driverKey(lang.Name, mode)] = result.PerSec
		return nil
	})
	return out, err
}

// driverKey names the turns/s of a language's drivers.
func driverKey(lang, mode string) string {
	if mode == "stream" {
		return "drive_" + lang + "_tps_64"
	}
	return "drive_" + lang + "_" + mode + "_tps_64"
}

// drivers are the figures of driversPart.
func drivers() []figure {
	var list []figure
	for _, lang := range []struct{ key, name string }{{"python", "Python"}, {"typescript", "TypeScript"}} {
		stream, unary := driverKey(lang.key, "stream"), driverKey(lang.key, "unary")
		ratio := figureWithBar("drive_"+lang.key+"_ratio", "x", "turns of a "+lang.name+" program whose client serves them against call by call", stat.AtLeast(2))
		ratio.from = ratioOf(stream, unary)
		list = append(list,
			plainFigure(stream, "/s", "turns of a "+lang.name+" program whose client serves them, 64 runs"),
			plainFigure(unary, "/s", "turns of a "+lang.name+" program, a call for each request, 64 runs"),
			ratio,
		)
	}
	return list
}
