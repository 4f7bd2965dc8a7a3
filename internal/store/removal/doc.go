// Package removal deletes whole runs: which rows of the store are a run's, in which order they go,
// and what is kept in their place.
//
// Owns: the rows of deleted runs (kind D), and the gaps in the order of everything.
// Keeps: a run is there whole or gone. The first commit takes its head and leaves its mark; what is
// left goes in pages, each a commit on condition of the mark, and the process that opens the store next ends
// what a crash broke off. A cursor that was given out stays one: its place becomes a gap in the
// commit that takes its entry.
package removal
