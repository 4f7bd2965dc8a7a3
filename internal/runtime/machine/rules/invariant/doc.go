// Package invariant checks that a state could have been made by the rules, and that the change between two
// states is what its records say.
//
// Owns: the invariants of every state. Keeps: it reads states only and does not use the rules that make them.
package invariant
