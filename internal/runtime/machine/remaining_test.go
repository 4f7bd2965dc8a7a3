package machine

import (
	"reflect"
	"testing"
	"time"
)

// TestRemaining: what is left of each budget, none for what has no bound, never less
// than nothing.
func TestRemaining(t *testing.T) {
	t.Parallel()
	of := func(n int64) *int64 { return &n }
	wall := func(d time.Duration) *time.Duration { return &d }
	bounded := &Graph{Budget: Budget{MaxTotalVisits: 5, MaxToolCalls: 4, MaxTokens: 100, MaxCostMicroUSD: 9}}
	for _, tt := range []struct {
		name string
		g    *Graph
		s    *State
		want Remaining
	}{
		{"no bounds", &Graph{}, &State{Tokens: 5}, Remaining{}},
		{"some used", bounded, &State{TotalVisits: 2, ToolCalls: 1, Tokens: 30, CostMicro: 9, MaxSteps: 3, LastStep: 4, Forked: &Forked{Steps: 2}, Deadline: 70},
			Remaining{Visits: of(3), ToolCalls: of(3), Steps: of(1), Tokens: of(70), CostMicro: of(0), WallTime: wall(60)}},
		{"over", bounded, &State{Tokens: 200, Deadline: 5},
			Remaining{Visits: of(5), ToolCalls: of(4), Tokens: of(0), CostMicro: of(9), WallTime: wall(0)}},
		{"the clock stands", &Graph{}, &State{WallLeft: 7}, Remaining{WallTime: wall(7)}},
	} {
		if got := RemainingAt(tt.g, tt.s, 10); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
