package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// DiffVisits compares the visits by state, in the order of their names.
func DiffVisits(a, b *machine.State) []machine.CountChange { return Visits(a, b) }

// DiffEdges compares how often edges were followed, named "state.Event".
func DiffEdges(a, b *machine.State) []machine.CountChange { return Edges(a, b) }

// DiffBudgets compares what counts against bounds, in a fixed order.
func DiffBudgets(a, b *machine.State) []machine.CountChange {
	return Budgets(a, b, ToolSteps)
}
