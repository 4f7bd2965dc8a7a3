// Package pg stands for internal/store/pg in a simulation: a simulated PostgreSQL with a
// synchronous standby, and the part of the real package that the store calls.
//
// In a simulation internal/store/pgengine imports it instead of the real package, see
// test/simulation/build. The protocol of commits, internal/store/fencing, is the real one.
//
// Concurrency: a [Server] is safe for concurrent use.
package pg
