// Package memkv is an engine in memory, for tests only. It implements the interfaces of package kv
// without a file of pairs.
//
// It keeps its data only until the process ends. It uses every freedom that package kv gives an engine:
// a view shows the newest group instead of the requested group, a read of a released group panics, and
// a value that the caller keeps too long is overwritten.
//
// Guarantees: the engine passes internal/store/kv/kvtest.
package memkv
