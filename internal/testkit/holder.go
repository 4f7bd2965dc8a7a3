package testkit

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// HoldStep stores to which worker a step goes.
func (s *Store) HoldStep(_ context.Context, row machine.OutboxRow, holder machine.StepHolder) error {
	s.mu.Lock()
	dead, fault := s.dead, s.holdFault
	s.mu.Unlock()
	if dead {
		return machine.ErrIndeterminate
	}
	if fault != nil {
		return fault
	}
	if !s.disk.hold(row, holder) {
		return machine.ErrNoStep
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.nextHold)
	s.nextHold = make(chan struct{})
	return nil
}

func (d *disk) hold(row machine.OutboxRow, holder machine.StepHolder) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, there := d.outbox[row]
	if there {
		d.outbox[row] = holder
	}
	return there
}

// DropOutbox removes a row.
func (s *Store) DropOutbox(_ context.Context, row machine.OutboxRow) error {
	d := s.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.outbox, row)
	return nil
}

// StepHolder returns what HoldStep stored last.
func (s *Store) StepHolder(_ context.Context, row machine.OutboxRow) (machine.StepHolder, error) {
	d := s.disk
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
func (s *Store) Holders() []machine.StepHolder {
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	var all []machine.StepHolder
	for _, holder := range s.disk.outbox {
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
