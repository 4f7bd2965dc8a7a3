// Package cluster holds the tests of several sidecars on one database: real processes that share its
// namespaces, a PostgreSQL server with a synchronous standby, relays in between that can be cut, and
// load from Go, Python and TypeScript in every namespace while all of it fails at random. What the
// database itself does not commit, by the word of a prober of its own, is not counted as a standstill
// of theirs.
//
// PAWL_FAULTS says how many faults there are (default: each once, and bars of time that a crowded
// machine keeps), PAWL_SEED which, PAWL_RUNS how many runs are open at once. PAWL_NODES=1 is one sidecar alone, for the harness itself.
package cluster
