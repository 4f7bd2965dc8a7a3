// Package hostunix stands for golang.org/x/sys/unix in a simulation: it offers what
// internal/store/datadir calls of that package, over a simulated disk.
//
// In a simulation datadir imports it instead of unix, see test/simulation/build.
package hostunix
