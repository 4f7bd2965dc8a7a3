// Package simulation simulates the whole process under a seed: two sidecars as package server builds
// them, with real engine, rooms, store, gRPC edge, A2A and workers, over a fake clock, a disk
// that can crash and a scheduler whose every choice is drawn from the seed. It has tests
// alone, which test/simulation/build compiles (tag sim); docs/dev/testing.md says how to run them.
//
// Read in this order:
//
//   - plan: what a seed decides beforehand, actions and knobs.
//   - world: a simulation from its beginning to its end; faults: what befalls it.
//   - machine, node: a machine with its disk, and one life of the process on it; clock, wire.
//   - cluster, members: a node that is several sidecars on one database; visits: who calls any of them;
//     wards: its namespaces that have a partition of their own.
//   - people, workers, readers, receivers: everybody around the two, one file each.
//   - oracle: what is held against the pure machine after every step; heal: what must hold
//     once all faults are over; shrink: a shorter plan that breaks the same promise.
//
// Below the store lie test/simulation/disk and its faces badger, hostos and hostunix, or pg; between
// sidecars that share a database, pipes. The
// invariant of it all: what happens in a simulation comes from its plan and from the seeded
// generator alone, never from time, the system or another simulation.
package simulation
