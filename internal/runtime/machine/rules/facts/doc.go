// Package facts is what a state says, told from it alone.
//
// Owns: nothing; it reads states and graphs.
// Called by: the rules, which change states, and by invariant, which proves them.
// May import: machine.
// Keeps: nothing is changed.
package facts
