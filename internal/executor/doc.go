// Package executor executes turns, and steps of tools of MCP servers, inside the sidecar. It is a worker
// like any other. Instead of an application's code it has a loop over MODEL steps, and calls of MCP tools.
//
// Owns: what a model receives about a turn (tools, the function that leaves the state), what the
// answers of the model mean, and what a step of an MCP tool sends. The server runs the executors. The
// package uses only the API, the worker of clients/go, the endpoints of models and the MCP servers.
//
// Guarantees: between rounds it remembers nothing that is not recorded. A model is called only for a
// round that has no recorded answer, and with the recorded request.
package executor
