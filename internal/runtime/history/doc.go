// Package history reads what was: records, states as of a record, artifacts and
// conversations, out of what the store keeps.
//
// Owns: replay from the last checkpoint, and the beginnings of long artifacts
// and of runs, which it remembers.
// Called by: the way (repeats, turns) and the rooms that look back.
// May import: machine and its rules; the store behind an interface of six reads.
// Keeps: what was is immutable: the same question has the same answer for ever, and
// costs the same however long the journal is.
package history
