package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/bench/load/flood"
	"github.com/pawl-dev/pawl/bench/load/host"
)

// Clients of the overload: those that drive runs all the time, and those that come on top of
// them and ask for runs of their own.
const (
	steadyClients = 64
	crowdClients  = 1024
	// crowdBound is the bound of inputs under way, so low that so many callers pass it
	// although they share two cores with what they call.
	crowdBound    = 256
	crowdArrival  = time.Second
	crowdRecovery = 5 * time.Second
)

func overload() []figure {
	return []figure{
		plainFigure("overload_refused_per_s", "/s", "1 024 callers, 256 inputs at once: refused calls"),
		figureWithBar("overload_refused_p99_ms", "ms", "refused after, p99", stat.AtMost(50)),
		compared("overload_accepted_ratio", "what was taken, p99 against without them", stat.AtMost(5), ratioOf("overload_accepted_p99_ms", "overload_alone_p99_ms")),
		figureWithBar("overload_recovery_ms", "ms", "until p99 is twice what it was, once they are gone", stat.AtMost(1000)),
		plainFigure("overload_rss_mb", "MB", "RSS after it"),
	}
}

// overloadPart floods a sidecar.
func (s *suite) overloadPart(ctx context.Context) (Samples, error) {
	return interleave(s.sizes.Rounds, []arm{{"overload", func(int) (map[string]float64, error) { return s.overloadArm(ctx) }}}, s.logRound)
}

func (s *suite) overloadArm(ctx context.Context) (map[string]float64, error) {
	dir, cleanup, err := tempDir(s.root, "overload")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	up, err := s.timedStart(ctx, dir, "--limits-inputs", strconv.Itoa(crowdBound))
	if err != nil {
		return nil, err
	}
	defer up.server.stop()
	crowd, err := s.start(ctx, "flood")
	if err != nil {
		return nil, err
	}
	defer crowd.stop()
	var got flood.Result
	if err := crowd.call(ctx, s.job("emit", up.target, steadyClients), &got); err != nil {
		return nil, err
	}
	rss, err := host.RSSMB(up.server.cmd.Process.Pid)
	return map[string]float64{
		"overload_alone_p99_ms": got.BaselineP99ms, "overload_accepted_p99_ms": got.AcceptedP99ms,
		"overload_refused_p99_ms": got.RefusedP99ms, "overload_recovery_ms": got.RecoveryMs,
		"overload_refused_per_s": float64(got.Refused) / (crowdArrival.Seconds() + s.sizes.Window), "overload_rss_mb": rss,
	}, err
}

// floodChild measures one flood after the other.
func floodChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job loadJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("flood: %w", err)
		}
		conns, closeAll, err := dial(job.Target, job.Connections+crowdClients/64)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		var clients flood.Clients
		for i := range job.Clients {
			clients.Steady = append(clients.Steady, newEmitClient(job, conns[i%job.Connections], i).once)
		}
		for i := range crowdClients {
			// These calls are only starts. This is work that no worker has yet.
			one := newEmitClient(job, conns[job.Connections+i%(crowdClients/64)], job.Clients+i)
			clients.Crowd = append(clients.Crowd, one.start)
		}
		return flood.Run(ctx, clients, flood.Times{Warm: job.Warm, Arrival: crowdArrival, Window: job.Window, RecoveryTimeout: crowdRecovery})
	})
}
