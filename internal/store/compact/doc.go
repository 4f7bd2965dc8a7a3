// Package compact copies the present rows of a store, without superseded and removed ones, into a
// new directory.
//
// It owns the copy, and the replacement of one directory by another. Its invariants: each row keeps
// its version, so that an incremental backup can continue one that was made before the compaction.
// At every moment the directory's name leads to a complete store. The package removes only what a
// compaction has left, and only if no process has it open.
package compact
