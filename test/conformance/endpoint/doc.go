// Package endpoint is a strict model endpoint that answers by script. It answers in the shapes of
// real endpoints, the broken ones included. It refuses with 400 what real endpoints refuse: a call
// without its answer, ids that are not unique, thoughts that do not come back.
//
// It owns the cases (cases/*.yaml: what the endpoint answers, and what every executor must make of
// it), the form of an answer on the wire, and the rules for requests. The conformance command plays
// the cases. The package does not depend on Pawl.
//
// Invariant: a pair of a case and an executor is one conversation, so that several executors play
// one case at once.
package endpoint
