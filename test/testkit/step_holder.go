package testkit

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// HoldStep stores to which worker a step goes.
func (s *Store) HoldStep(ctx context.Context, row machine.OutboxRow, holder machine.StepHolder) error {
	s.mu.Lock()
	dead, fault := s.dead, s.holdFault
	s.mu.Unlock()
	if dead {
		return machine.ErrIndeterminate
	}
	if fault != nil {
		return fault
	}
	if err := s.Backend.HoldStep(ctx, row, holder); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.nextHold)
	s.nextHold = make(chan struct{})
	return nil
}

// HoldStep implements [Backend].
func (d *disk) HoldStep(_ context.Context, row machine.OutboxRow, holder machine.StepHolder) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.outbox[row]; !there {
		return machine.ErrNoStep
	}
	d.outbox[row] = holder
	return nil
}

// DropOutbox removes a row.
func (d *disk) DropOutbox(_ context.Context, row machine.OutboxRow) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.outbox, row)
	return nil
}

// StepHolder returns what HoldStep stored last.
func (d *disk) StepHolder(_ context.Context, row machine.OutboxRow) (machine.StepHolder, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	holder, there := d.outbox[row]
	if !there {
		return holder, machine.ErrNoStep
	}
	return holder, nil
}

// FailHolds lets HoldStep fail; nil ends that.
func (s *Store) FailHolds(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdFault = err
}

// Holders are those of all rows of outgoing work, in no order.
func (d *disk) Holders() []machine.StepHolder {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var all []machine.StepHolder
	for _, holder := range d.outbox {
		all = append(all, holder)
	}
	return all
}

// AwaitHolder returns once a row has the holder; false: not in time.
func (s *Store) AwaitHolder(holder machine.StepHolder, most time.Duration) bool {
	over := time.After(most)
	for {
		s.mu.Lock()
		next := s.nextHold
		s.mu.Unlock()
		if slices.Contains(s.Holders(), holder) {
			return true
		}
		select {
		case <-next:
		case <-over:
			return false
		}
	}
}
