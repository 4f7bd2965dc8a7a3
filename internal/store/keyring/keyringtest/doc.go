// Package keyringtest tests that a medium of run keys does what a key ring needs of it.
//
// It owns the test suite and a medium in memory, [Memory].
//
// Invariant: the suite makes the same demands on every medium.
package keyringtest
