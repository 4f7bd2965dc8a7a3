package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Of returns the rows of a run in the list indexes. An imported run has rows for its pack, its labels and, if it has ended, its status.
// It is not an active run, and not a child or task of another run.
func Of(s *machine.State) []machine.IndexChange {
	var out []machine.IndexChange
	if !s.Imported || s.Status.Terminal() {
		out = append(out, machine.IndexChange{Index: "status", Value: s.Status.String(), Add: true})
	}
	out = append(out, []machine.IndexChange{
		{Index: "pack", Value: s.PackID, Add: true},
		{Index: "pack", Value: s.PackID + "@" + s.PackVersion, Add: true},
		{Index: "pack", Value: s.Digest, Add: true},
	}...)
	for _, l := range s.Labels {
		out = append(out, machine.IndexChange{Index: "label", Value: l.Key + "=" + l.Value, Add: true})
	}
	if s.Imported {
		return out
	}
	if s.Parent != nil {
		out = append(out, machine.IndexChange{Index: "parent", Value: s.Parent.RunID, Add: true})
	}
	out = append(out, heldIndex(s)...)
	return append(out, taskIndexes(s)...)
}

// taskIndexes returns the index rows that are used to list the tasks of an owner. One row orders the
// tasks by the time of their status, the newest first. Another row orders them by context.
func taskIndexes(s *machine.State) []machine.IndexChange {
	if s.Task == nil {
		return nil
	}
	return []machine.IndexChange{
		Task(s, true),
		{Index: "context", Value: s.Task.Owner + "\x00" + s.Task.ContextID, Add: true},
	}
}

// Task returns the row that orders an owner's tasks by the time of their last status, the newest first.
func Task(s *machine.State, add bool) machine.IndexChange {
	return machine.IndexChange{Index: "task", Value: fmt.Sprintf("%s\x00%016x", s.Task.Owner, uint64(math.MaxInt64-s.StatusAt)), Add: add}
}

// heldIndex returns the rows of the calls and events of a run that wait for a person.
func heldIndex(s *machine.State) []machine.IndexChange {
	var rows []machine.IndexChange
	for _, row := range machine.HeldRows(s) {
		rows = append(rows, machine.IndexChange{Index: machine.HeldIndex, Value: machine.HeldValue(row.Since, row.Step), Add: true})
	}
	return rows
}

// HeldChanges returns the rows of heldIndex that an input adds and removes.
func HeldChanges(old, s *machine.State) (changes []machine.IndexChange) {
	before, after := heldIndex(old), heldIndex(s)
	for _, row := range before {
		if !slices.Contains(after, row) {
			row.Add = false
			changes = append(changes, row)
		}
	}
	for _, row := range after {
		if !slices.Contains(before, row) {
			changes = append(changes, row)
		}
	}
	return changes
}
