// Package machine defines the vocabulary of a run: the Graph that its author wrote, its State, the Input that
// changes it, the resulting Records and Batch, and the rows by which it is found. Package rules derives one
// from the other; package store keeps them.
//
// Invariant: the contents of a Record or an Input are stored for ever. The meaning of a field never changes
// and no constant is renumbered.
package machine
