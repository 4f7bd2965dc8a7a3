// Package streams sends records to readers when they are committed. It offers streams of records of one
// run or of all runs, with filters and snapshots; waits for a run; and lists of records.
//
// Owns: the newest entries in memory, the subscriptions of readers, and the memory budget for pages
// that readers have not received yet.
//
// Guarantees: a reader receives records in order and without a gap, and each record contains the number
// of the previous record that matched. A commit never waits for a reader. The memory of all slow
// readers together is bounded.
package streams
