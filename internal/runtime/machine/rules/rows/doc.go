// Package rows says by which rows of the list indexes a run is found, and which timers it has.
//
// Owns: what the values of the indexes are made of, and so their order; the timers that a
// state implies.
// Called by: package rules.
// May import: machine.
// Keeps: the rows are a function of the state alone, so that the store can prove them.
package rows
