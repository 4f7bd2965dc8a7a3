// Package pipes is the network between simulated sidecars that share a database.
//
// In a simulation internal/cluster/transport listens and dials here instead of over TCP, see
// test/simulation/build. A process that is cut off reaches no other process, and no other process
// reaches it. The connections of a stopped process stay open, and carry nothing until the process
// goes on.
//
// Concurrency: a [Net] and a [Gate] are safe for concurrent use.
package pipes
