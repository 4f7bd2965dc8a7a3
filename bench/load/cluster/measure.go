package cluster

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/bench/load/stat"
)

// Load drives runs of a namespace at a node from a process of its own, and says how many transitions
// a second that makes.
type Load func(ctx context.Context, target, namespace string, runs int) (perSecond float64, err error)

// Config says what is measured, and how its processes are started.
type Config struct {
	Start Start
	Load  Load
	// Pack is the document of what Load runs. The sidecars have it in default.
	Pack []byte
	// Rounds of the comparisons, Moves of each kind.
	Rounds, Moves int
	// Warm and Window are the times of each comparison of calls that are not and that are measured.
	Warm, Window time.Duration
	// Progress receives the name of each step that begins.
	Progress func(what string)
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
	for _, name := range namespaces[1:] {
		if err := c.register(ctx, name, cfg.Pack); err != nil {
			return nil, fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	m := &measurement{Config: cfg, Cluster: c, samples: map[string][]float64{}}
	for round := range cfg.Rounds {
		if err := m.round(ctx, round); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	if err := m.measureMoves(ctx, "handover", syscall.SIGTERM); err != nil {
		return nil, err
	}
	return m.samples, m.measureMoves(ctx, "failover", syscall.SIGKILL)
}

// round compares once; every second one in the other order.
func (m *measurement) round(ctx context.Context, round int) error {
	m.Progress(fmt.Sprintf("round %d/%d calls through another node", round+1, m.Rounds))
	got, err := m.forward(ctx, m.Warm, m.Window)
	if err != nil {
		return err
	}
	for key, value := range got {
		m.samples[key] = append(m.samples[key], value)
	}
	m.Progress(fmt.Sprintf("round %d/%d stream of all runs at another node", round+1, m.Rounds))
	lags, err := m.lags(ctx, m.Warm, m.Window)
	if err != nil {
		return fmt.Errorf("stream of all runs: %w", err)
	}
	m.samples["cluster_lag_p50_ms"] = append(m.samples["cluster_lag_p50_ms"], millis(stat.Quantile(lags, 0.5)))
	m.samples["cluster_lag_p99_ms"] = append(m.samples["cluster_lag_p99_ms"], millis(stat.Quantile(lags, 0.99)))
	return m.throughputs(ctx, round)
}

// throughputs drives the same runs in each way.
func (m *measurement) throughputs(ctx context.Context, round int) error {
	order := slices.Clone(modes)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	for _, runs := range loads {
		for _, way := range order {
			key := keyOf(runs, way)
			m.Progress(fmt.Sprintf("round %d/%d %s", round+1, m.Rounds, key))
			perSecond, err := m.throughput(ctx, runs, way, m.Load)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			m.samples[key] = append(m.samples[key], perSecond)
		}
	}
	return nil
}

// measureMoves are some ends of owners by the same signal: how long callers stood still at each, and how long
// the node that came instead had less than its share.
func (m *measurement) measureMoves(ctx context.Context, name string, signal syscall.Signal) error {
	for move := range m.Moves {
		m.Progress(fmt.Sprintf("%s %d/%d", name, move+1, m.Moves))
		seen, err := m.Move(ctx, signal)
		if err != nil {
			return fmt.Errorf("%s %d: %w", name, move+1, err)
		}
		m.addDuration("cluster_"+name, seen.Standstill)
		m.addDuration("cluster_balance", seen.Balanced)
	}
	return nil
}

// addDuration adds a duration to the samples; the report has their median and maximum.
func (m *measurement) addDuration(what string, span time.Duration) {
	p50, most := what+"_p50_ms", what+"_most_ms"
	m.samples[p50] = append(m.samples[p50], millis(span))
	m.samples[most] = []float64{slices.Max(m.samples[p50])}
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
