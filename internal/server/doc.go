// Package server builds the sidecar from its parts, without a framework, and closes the parts in the
// order in which they depend on each other.
//
// Owns: the wiring. No other package connects a store, an engine and a server, and the observers of the
// engine's commits are connected here.
//
// Guarantees: every opened part is closed once, even if a start fails. The servers are closed first,
// and the store last.
package server
