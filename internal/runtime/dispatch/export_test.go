package dispatch

// HoldWaiting bounds the ready work that is held in memory, per pack of a namespace.
func (r *Dispatcher) HoldWaiting(most int) { r.waiting = most }
