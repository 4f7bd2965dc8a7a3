// Package worker is a worker in Go: it executes turns and steps for a sidecar
// over WorkerService. It is the reference for the clients in other languages, and
// what tests and benchmarks run.
//
// It knows the contract only and imports gen. Invariant: what it was given is reported
// once per lease, and no more is asked for than it can do at once.
package pawl
