// Package streams serves callers that read records while they are committed. It offers streams of records of one run or of all runs, with
// filters and snapshots; waits for a run; and lists of records.
//
// Owns: the newest entries in memory, the subscriptions and their wakes, and the memory budget for pages that readers have not taken yet.
//
// Guarantees: a reader gets records in order and without a gap, and each record names the previous one that matched. A commit never waits
// for a reader. All slow readers together use bounded memory.
package streams
