// Package blob stores values that are too large for the journal of a run. The journal contains only a reference to
// them. It offers uploads that can be resumed, reads from an offset, and the removal of unused blobs.
//
// Owns: the pieces of uploads, and the decision when a blob is old enough to be removed.
//
// Guarantees: a blob is addressed by the hash of its bytes, and is complete or absent. A blob that a run refers to is
// never removed.
package blob
