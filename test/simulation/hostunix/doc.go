// Package hostunix is what internal/store/datadir calls of golang.org/x/sys/unix, over a
// simulated disk. It is imported in its place in a simulation, see test/simulation/build.
package hostunix
