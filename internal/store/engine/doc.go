// Package engine is the seam between the store and what keeps its pairs: what is asked of an
// engine besides the contract of kv, when a store is opened, when a group is settled, now and then,
// and when rows go.
//
// Owns: the interface.
// Keeps: the store knows no file of its engine, and an engine none of the store's rows but those by
// which it proves that what was acknowledged is there.
package engine
