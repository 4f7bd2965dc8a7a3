// Package runtime is the way of one transition: an input takes its turn in the run's queue, is
// stamped, decided by the pure machine, committed, and sent to observers.
//
// Owns: each run's queue and cached state, turn tokens, timers, the gate; see apply.go.
// Keeps: one input of a run at a time, and nothing is shown before its commit is synced.
package runtime
