// Package engine defines the interface between the store and the engine that keeps its key-value pairs.
// In addition to the interfaces of kv, the store calls an engine when the store opens, when a group of
// commits is stored, at regular intervals, and when rows are removed.
//
// Owns: the interface.
//
// Guarantees: the store does not know the files of its engine. An engine does not know the store's
// rows, except the rows with which it checks that everything acknowledged exists.
package engine
