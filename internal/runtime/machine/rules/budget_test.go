package rules

import (
	"reflect"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestRemaining: what is left of each budget, none for what has no bound, never less
// than nothing.
func TestRemaining(t *testing.T) {
	t.Parallel()
	of := func(n int64) *int64 { return &n }
	wall := func(d time.Duration) *time.Duration { return &d }
	bounded := &machine.Graph{Budget: machine.Budget{MaxTotalVisits: 5, MaxToolCalls: 4, MaxTokens: 100, MaxCostMicroUSD: 9}}
	for _, tt := range []struct {
		name string
		g    *machine.Graph
		s    *machine.State
		want machine.Remaining
	}{
		{"no bounds", &machine.Graph{}, &machine.State{Tokens: 5}, machine.Remaining{}},
		{"some used", bounded, &machine.State{TotalVisits: 2, ToolCalls: 1, Tokens: 30, CostMicro: 9, MaxSteps: 3, LastStep: 4, Forked: &machine.Forked{Steps: 2}, Deadline: 70},
			machine.Remaining{Visits: of(3), ToolCalls: of(3), Steps: of(1), Tokens: of(70), CostMicro: of(0), WallTime: wall(60)}},
		{"over", bounded, &machine.State{Tokens: 200, Deadline: 5},
			machine.Remaining{Visits: of(5), ToolCalls: of(4), Tokens: of(0), CostMicro: of(9), WallTime: wall(0)}},
		{"the clock stands", &machine.Graph{}, &machine.State{WallLeft: 7}, machine.Remaining{WallTime: wall(7)}},
	} {
		if got := RemainingAt(tt.g, tt.s, 10); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
