// Package godriver executes the verbs of conformance scenarios with the generated Go stubs, and
// works with the Go client's worker. It reads one request a line and writes one answer a line; what
// is to be expected of an answer it does not know.
//
// Only the conformance command calls it.
// Invariant: an answer of the sidecar is passed on unchanged.
package godriver
