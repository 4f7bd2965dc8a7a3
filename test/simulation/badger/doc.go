// Package badger is what the store calls of Badger, over a simulated disk: managed
// transactions at timestamps, iterators, commits that are told of after the sync. In a
// simulation the store's own sources import it in Badger's place, see test/simulation/build; a
// test compares it with Badger, call by call. Types that hold nothing are Badger's own.
package badger
