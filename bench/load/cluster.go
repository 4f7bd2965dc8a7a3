package load

import (
	"context"
	"syscall"

	"github.com/pawl-dev/pawl/bench/load/cluster"
	"github.com/pawl-dev/pawl/bench/load/many"
)

// clusterPart measures sidecars that share a place.
func (s *suite) clusterPart(ctx context.Context) (Samples, error) {
	dir, cleanup, err := tempDir(s.root, "cluster")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	pack, err := packDocument(packLoop)
	if err != nil {
		return nil, err
	}
	place, drop := s.database.Fresh()
	defer drop()
	return cluster.Measure(ctx, cluster.Config{
		Start: s.startSidecars(dir, place, cluster.Flags()...), Pack: pack, Rounds: s.sizes.Rounds, Moves: s.sizes.Moves,
		Warm: s.sizes.warm(), Window: s.sizes.window(), Progress: s.logRound,
		Load: func(ctx context.Context, target, namespace string, runs int) (float64, error) {
			job := s.job("emit", target, runs)
			job.Namespace = namespace
			got, err := s.load(ctx, job)
			return got.PerSec, err
		},
	})
}

// startSidecars starts sidecars that share a place.
func (s *suite) startSidecars(dir string, place *many.Location, more ...string) cluster.Start {
	more = append(more, "--peer-listen", "127.0.0.1:0")
	return func(ctx context.Context) (cluster.Process, error) {
		kept, err := place.Flags(dir)
		if err != nil {
			return cluster.Process{}, err
		}
		server, target, err := s.server(ctx, "serve", s.serveFrom(kept, more...)...)
		return cluster.Process{Target: target, End: func(signal syscall.Signal) {
			if signal == syscall.SIGKILL {
				server.kill()
				return
			}
			_ = server.cmd.Process.Signal(signal) // it may have ended
			server.stop()
		}}, err
	}
}
