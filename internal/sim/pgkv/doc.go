// Package pgkv is a simulated PostgreSQL with a synchronous standby, and what the store calls of
// the package of that name: in a simulation internal/store/database imports it in that one's
// place, see internal/sim/build. The protocol of commits, internal/store/fenced, is the real one.
package pgkv
