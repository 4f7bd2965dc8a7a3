// Package delegation reads the delegations of runs, which are steps that an agent executes over A2A. It
// determines which delegations are pending or cancelled, reads their contents, and records the answers
// of their agents.
//
// Owns: no state of its own; delegations are rows and records of runs.
//
// Guarantees: a delegation always has the same contents, even after the end of its run. A message from
// an agent becomes an input of the sidecar itself, which needs no scope.
package delegation
