// Package runtime executes inputs of runs. An input waits in the run's queue, is stamped, decided by the pure
// machine, committed, and sent to observers.
//
// Owns: each run's queue and cached state, turn tokens, timers, the limiter of inputs in flight; see
// apply.go. Keeps: one input of a run at a time, and no reader sees a change before its commit is synced.
package runtime
