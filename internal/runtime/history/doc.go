// Package history reads what was: records, states as of a record, artifacts and conversations, out
// of what the store keeps.
//
// Owns: replay from the last checkpoint, and the beginnings of long artifacts and of runs, which it
// remembers.
// Keeps: what was is immutable: the same question has the same answer for ever, and costs the same
// however long the journal is.
package history
