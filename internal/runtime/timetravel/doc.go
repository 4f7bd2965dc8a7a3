// Package timetravel is the room of runs at other times and places: copies from a record,
// comparisons, proofs, portable files.
//
// Owns: what is copied into a fork, and who may be behind an approval; diffs.
// Keeps: the source of a copy is never changed, and nothing is executed to read what was; a run
// that a file brought takes no input.
package timetravel
