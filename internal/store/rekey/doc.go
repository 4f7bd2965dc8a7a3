// Package rekey changes the master key of an encrypted directory that nobody has open.
// app calls it; it imports inspect, for the lock and the proofs of any start, and Badger,
// whose file of data keys it writes. Its invariant: at every moment the directory opens
// with the old key or with the new one, and with which is never in doubt.
package rekey
