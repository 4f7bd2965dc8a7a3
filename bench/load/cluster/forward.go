package cluster

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/bench/load/stat"
)

// forward measures one caller alone: at the owner, and at another node, with one call of each in
// turn. Load from outside then affects both. The calls in the warm-up time are not counted.
func (c *Cluster) forward(ctx context.Context, warm, window time.Duration) (map[string]float64, error) {
	owner, others, err := c.splitByOwner(ctx)
	if err != nil {
		return nil, err
	}
	local, err := c.caller(ctx, owner)
	if err != nil {
		return nil, err
	}
	through, err := c.caller(ctx, others[0])
	if err != nil {
		return nil, err
	}
	calls := []*timed{
		{key: "cluster_local_emit_p50_us", call: local.emit}, {key: "cluster_forward_emit_p50_us", call: through.emit},
		{key: "cluster_local_get_p50_us", call: local.get}, {key: "cluster_forward_get_p50_us", call: through.get},
	}
	begin := time.Now()
	for time.Since(begin) < warm+window || len(calls[0].durations) == 0 {
		counts := time.Since(begin) >= warm
		for _, one := range calls {
			if err := one.once(ctx, counts); err != nil {
				return nil, err
			}
		}
		// None always comes behind the same other.
		rand.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	}
	out := map[string]float64{}
	for _, one := range calls {
		out[one.key] = micros(stat.Quantile(one.durations, 0.5))
	}
	return out, nil
}

// timed is a call that is made again and again.
type timed struct {
	key       string
	call      func(context.Context) error
	durations []time.Duration
}

func (t *timed) once(ctx context.Context, counts bool) error {
	begin := time.Now()
	err := t.call(ctx)
	if counts {
		t.durations = append(t.durations, time.Since(begin))
	}
	return err
}
