// Package server builds the sidecar from its parts, without a framework, and closes the parts in the
// order in which they depend on each other.
//
// Owns: the wiring. Only this package connects a store, a runtime and a server. It also connects the
// observers of the runtime's commits: metrics, traces and the log.
//
// Guarantees: every opened part is closed once, even if a start fails. The servers are closed before the
// store. A node of a cluster first hands over its partitions and closes their stores.
package server
