package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// DiffVisits returns the states whose number of visits differs, sorted by name.
func DiffVisits(a, b *machine.State) []machine.CountChange { return Visits(a, b) }

// DiffEdges returns the edges that were followed a different number of times, named "state.Event".
func DiffEdges(a, b *machine.State) []machine.CountChange { return Edges(a, b) }

// DiffBudgets returns the counters of budgets that differ, in a fixed order.
func DiffBudgets(a, b *machine.State) []machine.CountChange {
	return Budgets(a, b, ToolSteps)
}
