package machine

import (
	"slices"
	"strings"
)

// CountChange is a figure that differs between two states.
type CountChange struct {
	Name        string
	Base, Other int64
}

// DiffVisits compares the visits by state, in the order of their names.
func DiffVisits(a, b *State) []CountChange {
	return diffCounts(visitCounts(a), visitCounts(b))
}

// DiffEdges compares how often edges were followed, named "state.Event".
func DiffEdges(a, b *State) []CountChange {
	return diffCounts(edgeCounts(a), edgeCounts(b))
}

func visitCounts(s *State) map[string]int64 {
	counts := make(map[string]int64, len(s.Visits))
	for _, c := range s.Visits {
		counts[c.State] = int64(c.N)
	}
	return counts
}

func edgeCounts(s *State) map[string]int64 {
	counts := make(map[string]int64, len(s.Edges))
	for _, c := range s.Edges {
		counts[c.State+"."+c.Event] = int64(c.N)
	}
	return counts
}

func diffCounts(a, b map[string]int64) []CountChange {
	var changes []CountChange
	for name, n := range a {
		if b[name] != n {
			changes = append(changes, CountChange{Name: name, Base: n, Other: b[name]})
		}
	}
	for name, n := range b {
		if _, both := a[name]; !both {
			changes = append(changes, CountChange{Name: name, Other: n})
		}
	}
	slices.SortFunc(changes, func(x, y CountChange) int { return strings.Compare(x.Name, y.Name) })
	return changes
}

// DiffBudgets compares what counts against bounds, in a fixed order.
func DiffBudgets(a, b *State) []CountChange {
	var changes []CountChange
	for _, c := range []CountChange{
		{"total_visits", int64(a.TotalVisits), int64(b.TotalVisits)},
		{"transitions", int64(a.Transitions), int64(b.Transitions)},
		{"tool_calls", int64(a.ToolCalls), int64(b.ToolCalls)},
		{"steps", int64(a.LastStep - takenBy(a).Steps), int64(b.LastStep - takenBy(b).Steps)},
		{"reframes", int64(a.Reframes), int64(b.Reframes)},
		{"tokens", a.Tokens, b.Tokens},
		{"cost_micro_usd", a.CostMicro, b.CostMicro},
		{"artifact_bytes", a.ArtifactBytes, b.ArtifactBytes},
		{"message_bytes", a.MessageBytes, b.MessageBytes},
	} {
		if c.Base != c.Other {
			changes = append(changes, c)
		}
	}
	return changes
}
