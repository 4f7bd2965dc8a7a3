// Package reclaim gives disk space back: it compacts the tables that hold removed rows, and
// rewrites value logs that are half dead.
//
// It owns the count of removed bytes, and how much of that count compaction has reached.
//
// Keeps: the package writes and removes no row. Badger compacts a level when the level is full, and
// a store that shrinks fills none. Without this package the rows of deleted runs would stay on
// disk.
//
// Concurrency: a [Reclaimer] is safe for concurrent use, but only one goroutine calls [Reclaimer.Reclaim].
package reclaim
