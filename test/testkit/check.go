package testkit

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Check proves what must hold at any time: dense seqs, a whole chain, timers
// and index rows that are exactly those of the heads. Returns the first fault.
func (d *disk) Check() error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var timers []machine.Timer
	for key, run := range d.runs {
		if err := run.check(); err != nil {
			return fmt.Errorf("run %s: %w", key.id, err)
		}
		for _, t := range rules.Timers(run.head) {
			t.Namespace = key.ns
			timers = append(timers, t)
		}
		for _, row := range rules.Indexes(run.head) {
			if _, ok := d.index[indexKey{key.ns, row.Index, row.Value, key.id}]; !ok {
				return fmt.Errorf("run %s: no index row %s=%s", key.id, row.Index, row.Value)
			}
		}
	}
	slices.SortFunc(timers, compareTimers)
	if !slices.Equal(timers, d.timers) {
		return fmt.Errorf("%d timers are stored, the runs have %d", len(d.timers), len(timers))
	}
	return nil
}

func (r *runRows) check() error {
	next, prev := uint64(1), [32]byte{}
	for i := range r.entries {
		e := &r.entries[i]
		if e.First != next || e.PrevHash != prev {
			return fmt.Errorf("entry %d begins with record %d, want %d, or the chain is broken", i, e.First, next)
		}
		for j := range e.Records {
			if e.Records[j].Seq != next {
				return fmt.Errorf("record %d has seq %d", next, e.Records[j].Seq)
			}
			next++
		}
		prev = e.Hash
	}
	if r.head.Seq != next-1 || r.head.PrevHash != prev {
		return fmt.Errorf("the head is at %d, the journal at %d", r.head.Seq, next-1)
	}
	return nil
}
