// Package streams is the room of those who read what happens: streams of records of one run or of
// all, their filters and snapshots, waits, lists of records.
//
// Owns: the newest entries in memory, who is to be woken, what readers have not taken.
// Keeps: records come in order and without a gap, each with the one before it; no committer
// waits for a reader, and slow readers hold bounded memory together.
package streams
