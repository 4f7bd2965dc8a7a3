// Package executor executes turns inside the sidecar: it is a worker like any other, with
// a loop on MODEL steps instead of code of an app's.
//
// It owns what a model is told of a turn (tools, the function that leaves the state) and
// what its answers mean. The app runs it; it knows the contract only, besides the worker
// and the endpoints of models. Invariant: it remembers nothing between rounds that the
// record does not have; a model is asked only for a round that the record has no answer
// for, with what the record says that it is asked.
package executor
