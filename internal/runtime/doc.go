// Package runtime executes inputs of runs. An input waits in the run's queue, is stamped, decided by the pure machine, committed, and
// sent to observers. apply.go describes these phases.
//
// Owns: each run's queue and cached state, turn tokens, timers, and the limiter of inputs in flight.
//
// Guarantees: one input of a run is executed at a time, and no reader sees a change before its commit is synced.
package runtime
