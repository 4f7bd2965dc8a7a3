// Package invariant proves that a state could have been made by the rules, and that a change of one
// is what its records say.
//
// Owns: what holds of every state.
// Keeps: it reads states alone, apart from the rules that make them.
package invariant
