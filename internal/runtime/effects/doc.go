// Package effects prevents a tool call from having the same outside effect twice.
//
// Owns: business keys (x_pawl.tools.dedupe), and the answer to a second request with the same key. It
// also makes the payloads for tools that report whether another call happened, and for tools that undo
// another call.
//
// Guarantees: all data that this package reads is stamped into the input, and the machine then decides
// about the input again. So a replay uses the same data. The store makes the final check in the commit.
package effects
