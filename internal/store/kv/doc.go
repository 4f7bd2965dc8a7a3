// Package kv is the contract between the store and the engine that keeps its keys and values:
// what a read shows, how a group is stored, and what a failed commit means.
//
// It owns the terms of the contract and the rule about failed reads: after its first failed
// read, a [View] returns no more data. An interrupted scan is therefore never taken for a
// complete one. Engines implement [KV]. The package knows no engine, no key and no value.
//
// Invariant: an implementation that passes internal/store/kv/kvtest is an engine.
//
// Concurrency: one writer commits groups, one after the other. Any number of goroutines open
// and read views; one goroutine at a time uses each view.
package kv
