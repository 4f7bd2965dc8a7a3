// Package simulation simulates the whole process under a seed: two sidecars as internal/server
// builds them, with the real engine, services, store, gRPC edge, A2A and workers. They run over a
// fake clock, a disk that can crash and a scheduler that draws every choice from the seed.
//
// The package has tests alone, which test/simulation/build compiles (tag sim). docs/dev/testing.md
// says how to run them.
//
// Read in this order:
//
//   - plan: what a seed decides beforehand, actions and knobs.
//   - world: a simulation from its beginning to its end; faults: what happens to it.
//   - machine, node: a machine with its disk, and one life of the process on it; clock, wire.
//   - cluster, members: a node that is several sidecars on one database; visits: calls that any of
//     them may get; wards: the namespaces that have a partition of their own.
//   - people, workers, readers, receivers: the parties around the two sidecars, one file each.
//   - oracle: the comparison with the pure machine after every step; heal: what must hold once all
//     faults are over; shrink: a shorter plan that breaks the same promise.
//
// Below the store are test/simulation/disk, which it reaches through badger, hostos and hostunix,
// or test/simulation/pg. Between sidecars that share a database is test/simulation/pipes.
//
// Invariant: what happens in a simulation comes from its plan and from the seeded generator alone,
// never from time, the system or another simulation.
package simulation
