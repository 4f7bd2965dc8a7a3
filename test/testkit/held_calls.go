package testkit

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Held lists what waits for a person, by time, behind a place.
func (d *disk) Held(_ context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) ([]machine.HeldPlace, error) {
	d.mu.RLock()
	var all []machine.HeldPlace
	for key, run := range d.runs {
		if key.ns != ns {
			continue
		}
		for _, row := range machine.HeldRows(run.head) {
			all = append(all, machine.HeldPlace{Value: machine.HeldValue(row.Since, row.Step), Run: run.head.RunID})
		}
	}
	d.mu.RUnlock()
	order := func(a, b machine.HeldPlace) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Run, b.Run))
	}
	if newest {
		plain := order
		order = func(a, b machine.HeldPlace) int { return plain(b, a) }
	}
	slices.SortFunc(all, order)
	if after != (machine.HeldPlace{}) {
		all = slices.DeleteFunc(all, func(p machine.HeldPlace) bool { return order(p, after) <= 0 })
	}
	return all[:min(len(all), limit)], nil
}
