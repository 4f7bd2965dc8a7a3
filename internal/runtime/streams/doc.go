// Package streams serves callers that read records as they are committed: streams of records of one
// run or of all runs, with filters and snapshots; waits; lists of records.
//
// Owns: the newest entries in memory; the subscriptions and their wakes; the memory budget for
// pages that readers have not taken.
//
// Guarantees: a reader gets records in order and without a gap, and each record names the previous
// one that matched. A commit never waits for a reader. All slow readers together hold bounded
// memory.
package streams
