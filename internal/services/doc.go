// Package services puts the rooms of the runtime around the way of a transition, the same
// for the sidecar, the bench and the tests.
//
// Owns: the order in which they are made, who is told of commits, and the machine's clock
// and random source, which all of them are given.
// Called by: internal/server, bench/load, tests; the edges are handed a [House].
// May import: the runtime and its rooms. Nothing of the runtime imports it.
// Keeps: rooms meet only here, and each sees of the way what its interface names.
package services
