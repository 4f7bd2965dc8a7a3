// Package effects prevents that a tool call has the same outside effect twice.
//
// Owns: business keys (x_pawl.tools.dedupe), and the answer to a second request with the same key. A
// business key is a key that all calls with the same effect have in common. The package also makes
// the payloads for tools that report whether another call happened, and for tools that compensate
// another call.
//
// Guarantees: all data that this package reads is added to the input, and package rules then decides
// about the input a second time. So a replay uses the same data. The store makes the final check in
// the commit.
package effects
