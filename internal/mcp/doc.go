// Package mcp calls tools of MCP servers. It is the only package that imports the MCP SDK.
//
// Owns: the connection to a server over stdio or streamable HTTP, the limits of a server (time, bytes,
// processes), and the classification of the outcome of a call. Package executor makes the calls for
// runs.
//
// Guarantees: a call is sent again only if the first request certainly was not executed. A [Fault] says
// whether the call may have taken effect. If a call was sent and nothing else is known, its outcome is
// unknown. Descriptions and annotations that a server sends never extend what a call is allowed to do.
package mcp
