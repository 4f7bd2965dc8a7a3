// Package runtime executes inputs of runs. Each input waits in the queue of its run. Then the engine
// adds the data from outside, package rules decides what the input does, the store commits the result,
// and the observers receive the commit. apply.go describes these phases.
//
// Owns: each run's queue and cached state, turn tokens, timers, and the limiter of inputs in flight.
//
// Guarantees: one input of a run is executed at a time, and no reader sees a change before its commit
// is synced.
package runtime
