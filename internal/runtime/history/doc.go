// Package history reads the past of a run: records, states as of a record, artifacts and
// conversations.
//
// Owns: replay from the last checkpoint, and caches of the segments of long artifacts and of the
// variables of runs.
//
// Guarantees: the past is immutable, so the same question always has the same answer. Its cost does
// not grow with the length of the journal.
package history
