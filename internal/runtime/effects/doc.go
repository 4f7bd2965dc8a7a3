// Package effects prevents a tool call from having the same outside effect twice.
//
// Owns: business keys (x_pawl.tools.dedupe), and the answer to a second request with the same key; the
// payloads for tools that report whether another call happened, or that undo it. Keeps: everything that is
// read here is stamped into the input, and the machine decides about the input again, so that a replay finds
// the same. The store makes the final check in the commit.
package effects
