// Package walk visits runs in order, over the rows of several indexes at once.
//
// It owns the merge of rows that are sorted by run.
//
// Keeps: the walk visits each run once, newest first or oldest first. One goroutine uses a [Runs].
package walk
