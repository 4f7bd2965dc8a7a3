// Package removal deletes whole runs: it decides which rows of the store belong to a run, in which
// order they go, and what stays in their place.
//
// It owns the rows of deleted runs (kind D), and the gaps in the order of all entries. The store
// gives it a view and a function that writes.
//
// Keeps: a run is there whole or is gone. The first commit removes the head of the run and leaves
// its mark. The other rows go in pages, each a commit on condition that the mark is there. After a
// crash, the next process that opens the store finishes the removal. A cursor that was given out
// stays valid: the commit that removes its entry turns its place into a gap.
//
// Concurrency: a [Remover] is safe for concurrent use.
package removal
