package rules

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// RemainingAt returns the remaining amount of each budget at a time, in Unix nanoseconds. No figure is
// below 0.
func RemainingAt(g *machine.Graph, s *machine.State, at int64) machine.Remaining {
	left := func(limit, used int64) *int64 {
		if limit == 0 {
			return nil
		}
		n := max(0, limit-used)
		return &n
	}
	b, limit := &g.Budget, LimitOf(g, s)
	r := machine.Remaining{
		Visits:    left(int64(b.MaxTotalVisits), int64(s.TotalVisits)),
		ToolCalls: left(CallsOf(g, s), int64(s.ToolCalls)),
		Steps:     left(int64(s.MaxSteps), ToolSteps(s)),
		Tokens:    left(limit.Tokens, s.Tokens), CostMicro: left(limit.CostMicro, s.CostMicro),
	}
	switch {
	case s.WallLeft != 0:
		wall := time.Duration(s.WallLeft)
		r.WallTime = &wall
	case s.Deadline != 0:
		wall := max(0, time.Duration(s.Deadline-at))
		r.WallTime = &wall
	}
	return r
}

// EffectiveBudget returns the budget that applies to a run. It is the budget of the pack, which the
// run's start or a lease can lower and RaiseBudget can raise. asked is the wall time that was requested
// at the start. 0 means none.
func EffectiveBudget(g *machine.Graph, s *machine.State, asked time.Duration) machine.Budget {
	b := g.Budget
	limit := LimitOf(g, s)
	b.MaxTokens, b.MaxCostMicroUSD, b.MaxToolCalls = limit.Tokens, limit.CostMicro, int(CallsOf(g, s))
	b.MaxSteps, b.MaxWallTime = s.MaxSteps, smaller(b.MaxWallTime, asked)
	return b
}
