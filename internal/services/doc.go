// Package services puts the runtime and the services on it together, in one way for the sidecar,
// the bench and the tests.
//
// It owns the order in which they are made, which of them observe commits, and the clock and the
// random source that all of them use. Invariant: services meet only here.
package services
