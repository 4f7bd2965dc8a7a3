// Package kv defines the interface between the store and the engine that keeps its keys and values. It
// defines what a read shows, how a group of commits is stored, and what a failed commit means.
//
// Owns: the terms of the interface, and the rule about failed reads: after its first failed read, a
// [View] returns no more data. Therefore an interrupted scan is never mistaken for a complete one.
// Engines implement [KV]. The package knows no engine, no key and no value.
//
// Guarantees: an implementation that passes internal/store/kv/kvtest can be used as an engine.
//
// Concurrency: one writer commits groups, one after the other. Any number of goroutines open and read
// views. Only one goroutine at a time uses each view.
package kv
