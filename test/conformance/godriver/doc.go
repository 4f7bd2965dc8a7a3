// Package godriver executes the verbs of conformance scenarios with the generated Go stubs, and
// runs workers with the Go client.
//
// It reads one request per line and writes one answer per line. It does not know the expected
// answers. Like any client, it uses only gen and clients/go of this repository.
//
// Invariant: the driver passes on an answer of the sidecar unchanged.
package godriver
