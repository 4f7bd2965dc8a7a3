// Package machine owns the vocabulary of a run: the Graph that its author wrote, the State that it
// is in, the Input that moves it, the Records and the Batch that come of it, and the rows by which
// it is found. How one follows from the other is package rules; how it is kept is package store.
//
// Invariant: what stands in a Record or an Input is stored for ever, so that a field's meaning
// never changes and no constant is renumbered.
package machine
