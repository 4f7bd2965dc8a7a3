package dispatch

// HoldWaiting bounds the ready work that is held in memory, per pack of a namespace.
func (r *Dispatcher) HoldWaiting(most int) { r.waiting = most }

// Timers returns the number of timers that are set.
func (r *Dispatcher) Timers() int {
	r.timers.mu.Lock()
	defer r.timers.mu.Unlock()
	return len(r.timers.heap)
}
