// Package executor executes turns inside the sidecar. It is a worker like any other. Instead of an
// application's code it has a loop over MODEL steps.
//
// Owns: what a model receives about a turn (tools, the function that leaves the state), and what the
// answers of the model mean. The server runs the executor. The package uses only the API, the worker of
// clients/go and the endpoints of models.
//
// Guarantees: between rounds it remembers nothing that is not recorded. A model is called only for a
// round that has no recorded answer, and with the recorded request.
package executor
