// Command conformance runs the scenarios of test/conformance/scenarios against a real
// sidecar through every client language, and prints one table. It exits with 1 if
// any of them fails. `conformance driver` is the Go column's own driver.
//
// It owns the scenarios' verbs and what is to be expected of an answer; the drivers
// own how a language makes the call. It knows the contract only, nothing of the
// inside. Invariant: every language plays every scenario, word for word the same.
package main
