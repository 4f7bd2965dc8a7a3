// Package mcpserver serves the agents of registered packs as MCP tools, and runs as MCP tasks and resources.
//
// Owns: the names and schemas of the tools, the MCP form of a run, and the methods of the tasks extension. It is a
// client of the sidecar's API, so the same tokens, scopes, namespaces, quotas and audit lines apply to its callers.
// Package mcp is the opposite direction: it calls tools of MCP servers.
//
// Guarantees: the package stores nothing. The id of a task is the id of its run, so a task survives what its run
// survives. A call that is repeated with the same idempotency key starts no second run.
package mcpserver
