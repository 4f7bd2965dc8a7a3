// Package keyringtest tests whether a medium (storage of run keys) satisfies the requirements of a key
// ring.
//
// Owns: the test suite, and a medium in memory, [Memory].
//
// Guarantees: the requirements are the same for every medium.
package keyringtest
