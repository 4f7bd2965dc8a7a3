package rules

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Visits returns the states whose number of visits differs, sorted by name.
func Visits(a, b *machine.State) []machine.CountChange {
	return diffCounts(visitCounts(a), visitCounts(b))
}

// Edges returns the edges that were followed a different number of times, named "state.Event".
func Edges(a, b *machine.State) []machine.CountChange {
	return diffCounts(edgeCounts(a), edgeCounts(b))
}

func visitCounts(s *machine.State) map[string]int64 {
	counts := make(map[string]int64, len(s.Visits))
	for _, c := range s.Visits {
		counts[c.State] = int64(c.N)
	}
	return counts
}

func edgeCounts(s *machine.State) map[string]int64 {
	counts := make(map[string]int64, len(s.Edges))
	for _, c := range s.Edges {
		counts[c.State+"."+c.Event] = int64(c.N)
	}
	return counts
}

func diffCounts(a, b map[string]int64) []machine.CountChange {
	var changes []machine.CountChange
	for name, n := range a {
		if b[name] != n {
			changes = append(changes, machine.CountChange{Name: name, Base: n, Other: b[name]})
		}
	}
	for name, n := range b {
		if _, both := a[name]; !both {
			changes = append(changes, machine.CountChange{Name: name, Other: n})
		}
	}
	slices.SortFunc(changes, func(x, y machine.CountChange) int { return strings.Compare(x.Name, y.Name) })
	return changes
}

// Budgets returns the counters of budgets that differ, in a fixed order. The function steps returns the
// number of a run's own calls of tools and agents.
func Budgets(a, b *machine.State, steps func(*machine.State) int64) []machine.CountChange {
	var changes []machine.CountChange
	for _, c := range []machine.CountChange{
		{Name: "total_visits", Base: int64(a.TotalVisits), Other: int64(b.TotalVisits)},
		{Name: "transitions", Base: int64(a.Transitions), Other: int64(b.Transitions)},
		{Name: "tool_calls", Base: int64(a.ToolCalls), Other: int64(b.ToolCalls)},
		{Name: "steps", Base: steps(a), Other: steps(b)},
		{Name: "model_calls", Base: int64(a.ModelSteps), Other: int64(b.ModelSteps)},
		{Name: "reframes", Base: int64(a.Reframes), Other: int64(b.Reframes)},
		{Name: "tokens", Base: a.Tokens, Other: b.Tokens},
		{Name: "cost_micro_usd", Base: a.CostMicro, Other: b.CostMicro},
		{Name: "artifact_bytes", Base: a.ArtifactBytes, Other: b.ArtifactBytes},
		{Name: "message_bytes", Base: a.MessageBytes, Other: b.MessageBytes},
	} {
		if c.Base != c.Other {
			changes = append(changes, c)
		}
	}
	return changes
}
