package machine

import "time"

// Remaining is what is left of each budget of a run; nil = it has no such bound.
type Remaining struct {
	// Visits are further entries into states, Steps further tool calls by step.
	Visits, ToolCalls, Steps *int64
	Tokens, CostMicro        *int64
	WallTime                 *time.Duration
}

// RemainingAt tells what is left at a time, Unix nanoseconds. Nothing is ever less
// than 0: what passes a budget ends the run.
func RemainingAt(g *Graph, s *State, at int64) Remaining {
	left := func(limit, used int64) *int64 {
		if limit == 0 {
			return nil
		}
		n := max(0, limit-used)
		return &n
	}
	b := &g.Budget
	r := Remaining{
		Visits:    left(int64(b.MaxTotalVisits), int64(s.TotalVisits)),
		ToolCalls: left(int64(b.MaxToolCalls), int64(s.ToolCalls)),
		Steps:     left(int64(s.MaxSteps), int64(s.LastStep-takenBy(s).Steps)),
		Tokens:    left(b.MaxTokens, s.Tokens), CostMicro: left(b.MaxCostMicroUSD, s.CostMicro),
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

// EffectiveBudget is what holds for a run: its pack's budget, lowered by its start.
// asked is the wall time that the start asked for; 0 = none.
func EffectiveBudget(g *Graph, s *State, asked time.Duration) Budget {
	b := g.Budget
	b.MaxSteps, b.MaxWallTime = s.MaxSteps, smaller(b.MaxWallTime, asked)
	return b
}
