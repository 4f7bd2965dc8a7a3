// Package keyringtest tests that a medium of run keys does what a key ring needs of it.
//
// It owns the test suite and a medium in memory, [Memory].
//
// Keeps: the suite asks the same of every medium.
package keyringtest
