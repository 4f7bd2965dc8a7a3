// Package removal deletes whole runs. It decides which rows of the store belong to a run, in which
// order they are removed, and what remains of the run.
//
// Owns: the rows that remain of deleted runs, and the gaps in the order of all entries. The store
// passes it a view and a function that writes.
//
// Guarantees: a run exists either completely or not at all. The first commit removes the head (current
// state) of the run and stores a mark. The other rows are removed in pages. Each page is a commit that
// requires the mark. After a crash, the next process that opens the store completes the removal. Every
// cursor remains valid, because the commit that removes the entry of a cursor replaces it by a gap.
//
// Concurrency: a [Remover] is safe for concurrent use.
package removal
