package cluster

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/bench/load/latency"
)

// forward measures one caller alone at the owner and one at another node, a call of each in turn,
// so that whatever the machine does meets both. What comes in warm counts nowhere.
func (c *Cluster) forward(ctx context.Context, warm, window time.Duration) (map[string]float64, error) {
	owner, others, err := c.parted(ctx)
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
	for time.Since(begin) < warm+window || len(calls[0].took) == 0 {
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
		out[one.key] = micros(latency.Of(one.took, 0.5))
	}
	return out, nil
}

// timed is a call that is made again and again.
type timed struct {
	key  string
	call func(context.Context) error
	took []time.Duration
}

func (t *timed) once(ctx context.Context, counts bool) error {
	begin := time.Now()
	err := t.call(ctx)
	if counts {
		t.took = append(t.took, time.Since(begin))
	}
	return err
}
