// Package tally counts and logs what was refused and what was ignored.
//
// Owns: how many lines there are of it. Called by: grpcapi, at its edge.
// May import: the machine's refusals.
// Keeps: neither counts nor lines grow with what callers send.
package tally
