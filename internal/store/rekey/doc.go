// Package rekey changes the master key of an encrypted directory that no process has open.
//
// It owns the order of the steps: the lock of the directory, the same proofs as at any start, the
// keys of runs, and the file of Badger's data keys.
//
// Invariant: at every moment the directory opens with the old key or with the new one, and it is
// always certain with which.
package rekey
