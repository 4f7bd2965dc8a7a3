// Package compact writes the rows of a store anew, as they are now and no others.
//
// Owns: the copy, and how a directory takes another one's place.
// Keeps: each row has the version that it had, so that a backup may follow on one from before; at
// every moment the directory's name leads to a whole store; what is removed is what a compaction
// left, and no process has open.
package compact
