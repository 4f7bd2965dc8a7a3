// Package kvtest holds every engine to the contract of kv, and disturbs one for tests of the store.
//
// Owns: the suite; the sequence that leaves the same pairs in every engine; reads that fail on
// demand.
// Keeps: it knows no engine.
package kvtest
