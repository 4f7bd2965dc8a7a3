// Package figures compares what two states of runs have counted.
//
// Owns: nothing.
// Called by: package rules.
// May import: machine.
// Keeps: the order of what differs is fixed, so that equal comparisons read alike.
package figures
