// Package services creates the runtime and the services on top of it, in the same way for the sidecar, the benchmark and the tests.
//
// It owns the order in which they are created, the choice which of them observe commits, and the clock and random source that all of them
// use. Invariant: services are connected with each other only here.
package services
