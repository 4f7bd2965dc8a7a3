// Package engine is the seam between the store and whatever keeps its pairs: what is asked of
// an engine besides the contract of kv, when a store is opened, when a group is settled, now
// and then, and when rows go.
//
// Owns: the interface. Called by: the store. Implemented by: the room directory, over Badger;
// in tests by memkv.
// May import: kv, keyring, layout.
// Keeps: the store knows no file of its engine, and an engine none of the store's rows but
// those by which it proves that what was acknowledged is there.
package engine
