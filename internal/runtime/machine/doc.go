// Package machine defines the types of a run: the Graph that its author wrote, its State, the Input
// that changes it, the resulting Records and Batch, and the rows of its indexes. Package rules computes
// a Batch from a Graph, a State and an Input. Package store stores the Batch.
//
// Invariant: the contents of a Record or an Input are stored permanently. The meaning of a field never
// changes, and no constant is renumbered.
package machine
