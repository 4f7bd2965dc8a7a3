// Package cluster tests several sidecars on one database.
//
// The tests run real processes that share the namespaces of the database, a PostgreSQL server with
// a synchronous standby, and relays between them that can be cut. Clients in Go, Python and
// TypeScript put load on every namespace while all of it fails at random. A prober of the harness
// commits to the database too. A time in which the prober cannot commit does not count as a
// standstill of the sidecars.
//
// Environment variables:
//
//   - PAWL_FAULTS is the number of faults. By default each fault happens once, and the time limits
//     are those that a crowded machine keeps.
//   - PAWL_SEED chooses the faults.
//   - PAWL_RUNS is how many runs are open at once.
//   - PAWL_NODES=1 runs one sidecar alone, to test the harness itself.
package cluster
