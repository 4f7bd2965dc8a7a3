// Package memkv is an engine in memory, for tests only: the contract of package kv without a file
// of pairs.
//
// It owns nothing that outlives the process. It uses every freedom that the contract gives an
// engine: a view shows the newest group instead of the one that was asked for. A read below a
// released group panics, and a value that is kept too long is overwritten.
//
// Keeps: the engine passes internal/store/kv/kvtest.
package memkv
