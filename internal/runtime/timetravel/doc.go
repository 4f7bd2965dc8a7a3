// Package timetravel is the room of runs at other times and places: copies from a record,
// comparisons, proofs, portable files.
//
// Owns: what is copied into a fork, and who may be behind an approval; diffs.
// Called by: the edges.
// May import: the runtime's types, what lies below the way. The way imports it not.
// Keeps: the source of a copy is never changed, and nothing is executed to read what
// was; a run that a file brought takes no input.
package timetravel
