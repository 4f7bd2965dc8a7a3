// Package server builds the sidecar from its parts, without a framework, and closes them in the order in which they
// depend on each other.
//
// It owns the wiring: no other package puts a store, an engine and a server together, and the observers of the engine's
// commits are connected here.
// Invariant: every opened part is closed once, the servers first and the store last, also if a start fails.
package server
