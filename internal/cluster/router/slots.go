package router

import (
	"sync"
	"sync/atomic"
)

// Partitions is the maximum number of partitions. Their numbers begin at 0.
const Partitions = 64

// Slots holds one [Slot] for each partition of the store. A slot contains the open partition while this
// node owns it. Safe for concurrent use.
type Slots struct {
	at [Partitions]atomic.Pointer[Slot]
	mu sync.Mutex
	// changed is the channel that Changed has returned. It is closed when any slot changes. It is nil
	// until the next call of Changed.
	changed chan struct{}
}

// NewSlots returns empty slots.
func NewSlots() *Slots { return &Slots{} }

// At returns the slot of a partition. It always returns the same slot for a partition.
func (s *Slots) At(part int32) *Slot {
	place := &s.at[part]
	if place.Load() == nil {
		place.CompareAndSwap(nil, newSlot(s.notify))
	}
	return place.Load()
}

// notify wakes the callers that wait on Changed. It is called at each renewal of a lease, so it must be
// cheap.
func (s *Slots) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Changed returns a channel that is closed when a slot gets an open partition, or when a lease is
// renewed.
func (s *Slots) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// CountAccepted returns the number of partitions whose calls this node accepts.
func (s *Slots) CountAccepted() (n int) {
	for i := range s.at {
		if slot := s.at[i].Load(); slot != nil && slot.Accepts() {
			n++
		}
	}
	return n
}
