package testkit

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Tasks shows the heads of an owner's newest tasks, newest status first.
func (d *disk) Tasks(_ context.Context, ns uint32, owner, contextID string, most int, visit func(*machine.State) bool) error {
	d.mu.RLock()
	var heads []*machine.State
	for key, run := range d.runs {
		if task := run.head.Task; key.ns == ns && task != nil && (owner == "" || task.Owner == owner) &&
			(contextID == "" || task.ContextID == contextID) {
			heads = append(heads, run.head)
		}
	}
	d.mu.RUnlock()
	slices.SortFunc(heads, func(a, b *machine.State) int {
		return cmp.Or(cmp.Compare(b.StatusAt, a.StatusAt), cmp.Compare(a.RunID, b.RunID))
	})
	for _, head := range heads[:min(len(heads), most)] {
		if !visit(head) {
			return nil
		}
	}
	return nil
}
