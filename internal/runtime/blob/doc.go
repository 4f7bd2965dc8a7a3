// Package blob is the room of what is too large for a run's journal, which then holds a reference:
// uploads that can be gone on with, reading from an offset, the sweep.
//
// Owns: pieces on their way into a blob, and when a blob is old enough to go.
// Keeps: a blob is named by the hash of its bytes and is whole or not there; what a run refers to
// is never swept.
package blob
