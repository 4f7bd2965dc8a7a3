// Package compact copies the current rows of a store into a new directory. It does not copy superseded
// and removed rows.
//
// Owns: the copy, and the replacement of one directory by another.
//
// Guarantees: each row keeps its version, so that an incremental backup can continue a backup that was
// made before the compaction. At every moment the directory's name refers to a complete store. The
// package removes only what a compaction has left, and only if no process has it open.
package compact
