// Package reclaim gives room on disk back: it has tables compacted behind which removed rows lie,
// and rewrites value logs of which half is dead.
//
// Owns: how much was removed, and how much of that compaction has met.
// Keeps: no row is written or removed here. Badger compacts when a level is full, and a store that
// shrinks fills none: without this the rows of what was deleted would stay.
package reclaim
