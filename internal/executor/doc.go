// Package executor executes turns inside the sidecar. It is a worker like any other, with a loop over MODEL
// steps in place of an application's code.
//
// It owns what a model receives about a turn (tools, the function that leaves the state) and what its answers mean. The server runs it.
// It uses only the API contract, the worker of clients/go and the endpoints of models. Invariant: between rounds it remembers nothing
// that is not recorded. A model is called only for a round without a recorded answer, with the recorded request.
package executor
