// Package invariant checks a run's state in tests: whether the rules could have made it, and
// whether the change between two states agrees with the records.
//
// Owns: the invariants of every state.
//
// Guarantees: the package only reads states. It does not call the functions that make them.
package invariant
