// Package invariant checks that the rules could have made a state, and that the change between two states agrees with its records.
//
// Owns: the invariants of every state.
//
// Guarantees: it only reads states, and it does not use the rules that make them.
package invariant
