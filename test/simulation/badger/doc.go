// Package badger stands for Badger in a simulation: it offers the part of Badger that the store
// calls, over a simulated disk.
//
// It owns managed transactions at timestamps, iterators, and commits that call back after the sync.
// In a simulation the store's own sources import it instead of Badger, see test/simulation/build. A
// test compares it with Badger, call by call. Types that hold nothing are Badger's own.
//
// Concurrency: a [DB] is safe for concurrent use.
package badger
