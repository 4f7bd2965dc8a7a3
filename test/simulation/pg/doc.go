// Package pg is a simulated PostgreSQL with a synchronous standby, and what the store calls of
// the package of that name: in a simulation internal/store/pgengine imports it in that one's
// place, see test/simulation/build. The protocol of commits, internal/store/fencing, is the real one.
package pg
