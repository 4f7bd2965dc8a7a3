package rules

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func TestDiffOfStates(t *testing.T) {
	t.Parallel()
	a := &machine.State{
		Visits: []machine.Count{{State: "plan", N: 2}, {State: "work", N: 1}}, Edges: []machine.EdgeCount{{State: "plan", Event: "Ready", N: 1}},
		TotalVisits: 3, LastStep: 4, ModelSteps: 2, Tokens: 7, ArtifactBytes: 5,
	}
	b := &machine.State{
		Visits: []machine.Count{{State: "work", N: 1}, {State: "check", N: 4}, {State: "plan", N: 1}}, Edges: []machine.EdgeCount{{State: "plan", Event: "Ready", N: 1}, {State: "work", Event: "Again", N: 2}},
		TotalVisits: 3, LastStep: 6, ModelSteps: 1, Forked: &machine.Forked{Steps: 2}, Tokens: 7, ArtifactBytes: 5, CostMicro: 1,
	}
	for _, tt := range []struct {
		what      string
		got, want []machine.CountChange
	}{
		{"visits", DiffVisits(a, b), []machine.CountChange{{Name: "check", Base: 0, Other: 4}, {Name: "plan", Base: 2, Other: 1}}},
		{"edges", DiffEdges(a, b), []machine.CountChange{{Name: "work.Again", Base: 0, Other: 2}}},
		{"budgets", DiffBudgets(a, b), []machine.CountChange{{Name: "steps", Base: 2, Other: 3}, {Name: "model_calls", Base: 2, Other: 1}, {Name: "cost_micro_usd", Base: 0, Other: 1}}},
		{"the same", append(append(DiffVisits(a, a), DiffEdges(b, b)...), DiffBudgets(b, b)...), nil},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
}
