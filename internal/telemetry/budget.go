package telemetry

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Graphs returns the compiled pack of a run.
type Graphs func(ctx context.Context, s *machine.State) (*machine.Graph, error)

// final is a run that has ended: its last state, and the function that finds its graph.
type final struct {
	state  *machine.State
	graphs Graphs
}

// Run records, for each run that ended, how much of its budget was used. It leaves out a run whose graph is not
// found, and runs that ended while the queue was full. It returns when ctx ends.
func (m *Metrics) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-m.finals:
			if g, err := f.graphs(ctx, f.state); err == nil {
				m.budgets(f.state, &g.Budget)
			}
		}
	}
}

// budgets records, for each budget of an ended run, which fraction the run has used.
func (m *Metrics) budgets(s *machine.State, b *machine.Budget) {
	for _, one := range []struct {
		name        string
		used, bound int64
	}{
		{"max_total_visits", int64(s.TotalVisits), int64(b.MaxTotalVisits)},
		{"max_tool_calls", int64(s.ToolCalls), int64(b.MaxToolCalls)},
		{"max_wall_time_sec", s.At - s.CreatedAt, int64(b.MaxWallTime)},
		{"max_steps", int64(s.LastStep), int64(s.MaxSteps)},
		{"max_reframes", int64(s.Reframes), int64(b.MaxReframes)},
		{"max_tokens", s.Tokens, b.MaxTokens},
		{"max_cost_usd", s.CostMicro, b.MaxCostMicroUSD},
		{"max_transitions", int64(s.Transitions), int64(s.Limits.MaxTransitions)},
	} {
		if one.bound > 0 {
			m.used.WithLabelValues(one.name).Observe(float64(one.used) / float64(one.bound))
		}
	}
}
