// Package timetravel works with past states and copies of runs: forks from a record, comparisons,
// verification, and portable files.
//
// Owns: the data that a fork copies; the check which callers may fork past an approval; comparisons.
//
// Guarantees: the source of a fork is never changed. Reading a past state executes no tools or models.
// An imported run accepts no input.
package timetravel
