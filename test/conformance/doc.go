// Command conformance runs the scenarios of test/conformance/scenarios against a real sidecar
// through every client language, and prints one table. It exits with 1 if any of them fails.
// `conformance driver` is the Go column's own driver.
//
// The command owns the verbs of the scenarios and the expected answers. The drivers own how a
// language makes the call. The command knows the contract only, and no internals of the sidecar.
//
// Invariant: every language plays every scenario without a change.
package main
