package machine

import (
	"reflect"
	"testing"
)

func TestDiffOfStates(t *testing.T) {
	t.Parallel()
	a := &State{
		Visits: []Count{{"plan", 2}, {"work", 1}}, Edges: []EdgeCount{{"plan", "Ready", 1}},
		TotalVisits: 3, LastStep: 2, Tokens: 7, ArtifactBytes: 5,
	}
	b := &State{
		Visits: []Count{{"work", 1}, {"check", 4}, {"plan", 1}}, Edges: []EdgeCount{{"plan", "Ready", 1}, {"work", "Again", 2}},
		TotalVisits: 3, LastStep: 5, Forked: &Forked{Steps: 2}, Tokens: 7, ArtifactBytes: 5, CostMicro: 1,
	}
	for _, tt := range []struct {
		what      string
		got, want []CountChange
	}{
		{"visits", DiffVisits(a, b), []CountChange{{"check", 0, 4}, {"plan", 2, 1}}},
		{"edges", DiffEdges(a, b), []CountChange{{"work.Again", 0, 2}}},
		{"budgets", DiffBudgets(a, b), []CountChange{{"steps", 2, 3}, {"cost_micro_usd", 0, 1}}},
		{"the same", append(append(DiffVisits(a, a), DiffEdges(b, b)...), DiffBudgets(b, b)...), nil},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
}
