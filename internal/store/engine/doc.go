// Package engine defines the interface between the store and the engine that keeps its pairs.
// Besides the contract of kv, the store calls an engine when it opens, when a group is settled, at
// intervals, and when rows are removed.
//
// The package owns the interface. Its invariant: the store does not know the files of its engine.
// An engine does not know the store's rows, except those with which it proves that everything
// acknowledged exists.
package engine
