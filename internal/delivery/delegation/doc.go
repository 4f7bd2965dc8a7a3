// Package delegation reads the delegations of runs: which are pending or cancelled, their
// contents, and the answers of their agents.
//
// Owns: no state of its own; delegations are rows and records of runs. Keeps: a delegation
// always reads the same, even after the end of its run. A message from an agent becomes an
// input of the sidecar itself, which needs no scope.
package delegation
