// Package cluster holds the tests of several sidecars on one database: real processes, a
// PostgreSQL server with a synchronous standby, relays in between that can be cut, and load
// from Go, Python and TypeScript while all of it fails at random.
//
// PAWL_FAULTS says how many faults there are, PAWL_SEED which. PAWL_NODES=1 is one sidecar
// alone, for the harness itself.
package cluster
