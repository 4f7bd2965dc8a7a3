package load

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/bench/load/cluster"
	"github.com/pawl-dev/pawl/bench/load/many"
)

// roundTrips are the statements that do nothing of each round.
const roundTrips = 2000

// storePart compares the store in a database with the embedded one.
func (s *suite) storePart(ctx context.Context) (Samples, error) {
	var arms []arm
	for _, runs := range many.Runs {
		for _, name := range storeNames {
			arms = append(arms, arm{fmt.Sprintf("engine, %d runs, %s", runs, name), func(int) (map[string]float64, error) { return s.storeCommits(ctx, name, runs) }})
		}
	}
	for _, name := range storeNames {
		arms = append(arms, arm{"EmitEvent, " + name, func(int) (map[string]float64, error) { return s.storeEmits(ctx, name) }})
	}
	arms = append(arms, arm{"round trip", func(int) (map[string]float64, error) { return s.roundTrips(ctx) }})
	samples, err := interleave(s.sizes.Rounds, arms, s.logRound)
	for i, p50 := range samples["store_alone_p50_us"] {
		if trip := samples["store_roundtrip_p50_us"]; i < len(trip) {
			samples["store_alone_ms_over_roundtrip"] = append(samples["store_alone_ms_over_roundtrip"], (p50-trip[i])/1e3)
		}
	}
	return samples, err
}

// storeNames are what metrics of the two stores begin with.
var storeNames = []string{"store", "store_embedded"}

// locationOf the store of a name: nil is a directory.
func (s *suite) placeOf(name string) (*many.Location, func()) {
	if name == "store" {
		return s.database.Fresh()
	}
	return nil, func() {}
}

func (s *suite) storeCommits(ctx context.Context, name string, runs int) (map[string]float64, error) {
	place, drop := s.placeOf(name)
	defer drop()
	got, err := s.commits(ctx, "engine", runs, place)
	return map[string]float64{fmt.Sprintf("%s_engine_tps_%d", name, runs): got.PerSec}, err
}

func (s *suite) storeEmits(ctx context.Context, name string) (map[string]float64, error) {
	place, drop := s.placeOf(name)
	defer drop()
	out := map[string]float64{}
	err := s.onPlace(ctx, place, func(target string) error {
		for _, runs := range many.WiredRuns {
			got, err := s.load(ctx, s.job("emit", target, runs))
			if err != nil {
				return fmt.Errorf("%d runs: %w", runs, err)
			}
			out[fmt.Sprintf("%s_emit_tps_%d", name, runs)] = got.PerSec
			switch runs {
			case 1:
				out[name+"_alone_p50_us"] = got.P50us
			case 64:
				out[name+"_emit_p99_us_64"] = got.P99us
			}
		}
		return nil
	})
	return out, err
}

func (s *suite) roundTrips(ctx context.Context) (map[string]float64, error) {
	took, err := s.database.RoundTrips(ctx, roundTrips)
	if err != nil {
		return nil, err
	}
	slices.Sort(took)
	return map[string]float64{"store_roundtrip_p50_us": micros(took[len(took)/2])}, nil
}

// storeMillionPart starts a sidecar, again and again after SIGKILL, over very many waiting
// runs in the database, and has one of several sidecars taken over by another.
func (s *suite) storeMillionPart(ctx context.Context) (Samples, error) {
	dir, cleanup, err := tempDir(s.root, "store-million")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	place, drop := s.database.Fresh()
	defer drop()
	if err := s.seed(ctx, dir, seedJob{Runs: s.sizes.ManyRuns, Place: place}); err != nil {
		return nil, err
	}
	start := func(int) (map[string]float64, error) {
		args, err := place.Flags(dir)
		if err != nil {
			return nil, err
		}
		return s.overMany(ctx, "store_million", s.serveFrom(args))
	}
	takeOver := func(int) (map[string]float64, error) {
		return cluster.TakeOver(ctx, s.startSidecars(dir, place, s.allowMany()...))
	}
	return interleave(s.sizes.Restarts, []arm{{"start over them", start}, {"take-over by another node", takeOver}}, s.logRound)
}

// onPlace runs use against a fresh sidecar on a fresh store.
func (s *suite) onPlace(ctx context.Context, place *many.Location, use func(target string) error) error {
	if place == nil {
		return s.onServer(ctx, "serve", use)
	}
	dir, cleanup, err := tempDir(s.root, "serve")
	if err != nil {
		return err
	}
	defer cleanup()
	args, err := place.Flags(dir)
	if err != nil {
		return err
	}
	server, target, err := s.server(ctx, "serve", s.serveFrom(args)...)
	if err != nil {
		return err
	}
	defer server.stop()
	return use(target)
}

// figures of the database that is measured.
func (s *suite) figures() (list []figure) {
	if s.database == nil {
		return nil
	}
	for _, f := range slices.Concat(s.database.Figures(), cluster.Figures()) {
		from := measured(f.Key)
		if f.Num != "" {
			from = ratioOf(f.Num, f.Den)
		}
		list = append(list, figure{key: f.Key, title: f.Title, unit: f.Unit, bar: f.Bar, from: from})
	}
	return list
}
