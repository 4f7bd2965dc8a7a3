// Package endpoint is a strict endpoint of models by script. It answers in the shapes that real
// endpoints answer in, the broken ones included, and refuses with 400 what the real ones refuse:
// a call without its answer, ids that are not unique, thoughts that do not come back.
//
// It owns the cases (cases/*.yaml: what the endpoint says, and what every executor must make of
// it), how an answer looks on the wire in each form, and the rules of what it may be told. The
// conformance runner plays the cases; it knows nothing of Pawl. Invariant: a conversation is the
// pair of a case and an executor, so that several executors play one case at once.
package endpoint
