// Package runtime is the way of one transition: an input takes its turn in the run's queue,
// is stamped, decided by the pure machine, committed, and told to whoever follows.
//
// Owns: each run's queue and cached state, turn tokens, timers, the gate; see apply.go.
// Called by: the rooms around it and the edges, which internal/services puts together.
// May import: machine and rules, program, request, history, render, policy, pack; no room.
// Keeps: one input of a run at a time, and nothing is shown before its commit is synced.
package runtime
