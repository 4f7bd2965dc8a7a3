package cluster

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/bench/latency"
)

// Load drives runs at a node from a process of its own, and says how many transitions a second
// that makes.
type Load func(ctx context.Context, target string, runs int) (perSecond float64, err error)

// Config says how much is measured, and who starts what is.
type Config struct {
	Start Start
	Load  Load
	// Rounds of the comparisons, Moves of each kind.
	Rounds, Moves int
	// Warm and Window are the times of each comparison of calls that are not and that are measured.
	Warm, Window time.Duration
	// Tell is told what is done.
	Tell func(what string)
}

// measurement is one under way.
type measurement struct {
	Config
	*Cluster
	samples map[string][]float64
}

// Measure gives the values of each metric, in the order of the rounds.
func Measure(ctx context.Context, cfg Config) (map[string][]float64, error) {
	c, err := New(ctx, cfg.Start)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m := &measurement{Config: cfg, Cluster: c, samples: map[string][]float64{}}
	for round := range cfg.Rounds {
		if err := m.round(ctx, round); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	if err := m.moves(ctx, "handover", syscall.SIGTERM); err != nil {
		return nil, err
	}
	return m.samples, m.moves(ctx, "failover", syscall.SIGKILL)
}

// round compares once; every second one in the other order.
func (m *measurement) round(ctx context.Context, round int) error {
	m.Tell(fmt.Sprintf("round %d/%d calls through another node", round+1, m.Rounds))
	got, err := m.forward(ctx, m.Warm, m.Window)
	if err != nil {
		return err
	}
	for key, value := range got {
		m.samples[key] = append(m.samples[key], value)
	}
	m.Tell(fmt.Sprintf("round %d/%d stream of all runs at another node", round+1, m.Rounds))
	lags, err := m.lags(ctx, m.Warm, m.Window)
	if err != nil {
		return fmt.Errorf("stream of all runs: %w", err)
	}
	m.samples["cluster_lag_p50_ms"] = append(m.samples["cluster_lag_p50_ms"], millis(latency.Of(lags, 0.5)))
	m.samples["cluster_lag_p99_ms"] = append(m.samples["cluster_lag_p99_ms"], millis(latency.Of(lags, 0.99)))
	for _, runs := range loads {
		for _, spread := range []bool{round%2 == 1, round%2 == 0} {
			key := keyOf(runs, spread)
			m.Tell(fmt.Sprintf("round %d/%d %s", round+1, m.Rounds, key))
			perSecond, err := m.throughput(ctx, runs, spread, m.Load)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			m.samples[key] = append(m.samples[key], perSecond)
		}
	}
	return nil
}

// moves are some ends of owners by the same signal: how long callers stood still at each, and at most.
func (m *measurement) moves(ctx context.Context, name string, signal syscall.Signal) error {
	p50, most := "cluster_"+name+"_p50_ms", "cluster_"+name+"_most_ms"
	for move := range m.Moves {
		m.Tell(fmt.Sprintf("%s %d/%d", name, move+1, m.Moves))
		seen, err := m.Move(ctx, signal)
		if err != nil {
			return fmt.Errorf("%s %d: %w", name, move+1, err)
		}
		ms := millis(seen.Standstill)
		m.samples[p50] = append(m.samples[p50], ms)
		m.samples[most] = []float64{max(ms, m.mostOf(most))}
	}
	return nil
}

func (m *measurement) mostOf(key string) float64 {
	if len(m.samples[key]) == 0 {
		return 0
	}
	return m.samples[key][0]
}

// TakeOver has the owner killed over what the sidecars of start have before them: when the first
// commit is acknowledged by another one, and the first run is started.
func TakeOver(ctx context.Context, start Start) (map[string]float64, error) {
	c, err := New(ctx, start)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	seen, err := c.Move(ctx, syscall.SIGKILL)
	return map[string]float64{"store_million_takeover_ms": millis(seen.Committed), "store_million_takeover_start_ms": millis(seen.Started)}, err
}

// micros and millis are the units of the figures.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
