// Package hostunix is what internal/store/inspect calls of golang.org/x/sys/unix, over a
// simulated disk. It is imported in its place in a simulation, see internal/sim/build.
package hostunix
