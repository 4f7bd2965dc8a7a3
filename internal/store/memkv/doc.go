// Package memkv is an engine in memory, for tests only: the contract of package kv without a
// file of pairs.
//
// It keeps its data only as long as the process. It uses every freedom that the contract gives
// an engine: a view shows the newest group instead of the requested one. A read below a
// released group panics, and a value that is kept too long is overwritten.
//
// Invariant: the engine passes internal/store/kv/kvtest.
package memkv
