package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Held lists at most limit tool calls that wait for an approval, in the order in which they began to
// wait. newest reverses the order. The list begins after the position after. A zero position means the
// start of the list.
func (s *Store) Held(ctx context.Context, ns uint32, after machine.HeldPlace, newest bool, limit int) (places []machine.HeldPlace, err error) {
	p := layout.AppendName(layout.Prefix(nil, layout.KindIndex, ns), machine.HeldIndex)
	start := slices.Clone(p)
	switch {
	case after != (machine.HeldPlace{}):
		start = layout.AppendName(layout.AppendName(start, after.Value), after.Run)
	case newest:
		// A reverse scan begins after the last key with the prefix.
		start = append(start, 0xFF, 0xFF)
	}
	err = s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p, Reverse: newest, KeysOnly: true})
		defer it.Close()
		for it.Seek(start); layout.AtPrefix(it, p) && len(places) < limit && ctx.Err() == nil; it.Next() {
			value, run, err := layout.TaskRow(it.Key(), ns)
			if err != nil {
				return err
			}
			if place := (machine.HeldPlace{Value: value, Run: run}); place != after {
				places = append(places, place)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list what waits: %w", err)
	}
	return places, nil
}
