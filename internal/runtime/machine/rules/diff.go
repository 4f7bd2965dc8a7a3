package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// DiffVisits returns the differences of the visits by state, sorted by name.
func DiffVisits(a, b *machine.State) []machine.CountChange { return Visits(a, b) }

// DiffEdges returns the differences of how often edges were followed, named "state.Event".
func DiffEdges(a, b *machine.State) []machine.CountChange { return Edges(a, b) }

// DiffBudgets returns the differences of the figures that count against bounds, in a fixed order.
func DiffBudgets(a, b *machine.State) []machine.CountChange {
	return Budgets(a, b, ToolSteps)
}
