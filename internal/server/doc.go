// Package server builds the sidecar out of its parts, by hand, and closes them in the order in
// which they depend on each other.
//
// It owns how the parts are put together: no other package makes a store, an engine and an edge, and what the
// engine tells others (published, effects) is wired here.
// Invariant: what was opened is closed once, edges first and the store last, also when a start
// fails.
package server
