// Package kvtest tests engines against the contract of package kv, and makes reads fail for tests
// of the store.
//
// It owns the suite, a sequence of groups that leaves the same pairs in every engine, and reads
// that fail on demand ([Faults]).
//
// The package knows no engine. Faults is safe for concurrent use.
package kvtest
