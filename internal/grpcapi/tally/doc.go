// Package tally counts and logs what was refused and what was ignored.
//
// Owns: how many lines there are of it.
// Keeps: neither counts nor lines grow with what callers send.
package tally
