// Package invariant checks a state: whether the rules could have made it, and whether the change
// between two states agrees with the records.
//
// Owns: the invariants of every state.
//
// Guarantees: the package only reads states, and it does not use the rules that make them.
package invariant
