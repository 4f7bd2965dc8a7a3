// Package kvtest tests whether an engine satisfies the requirements of package kv. It can also make
// reads fail, for tests of the store.
//
// Owns: the test suite, a sequence of groups that results in the same pairs in every engine, and reads
// that fail on request ([Faults]).
//
// The package knows no engine. Faults is safe for concurrent use.
package kvtest
