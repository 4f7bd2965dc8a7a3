// Package kv is the contract between the store and the engine that keeps its pairs of keys
// and values: what is read, how a group is stored, what a commit that goes wrong means.
//
// Owns: the words of the contract, and the rule about reads that fail: a [View] whose read
// failed answers nothing more, so that nobody takes a scan that broke off for one that ended.
// Called by: the store and its rooms, which read through a [View]; engines implement [KV].
// May import: nothing of ours. It knows no engine, no key and no value.
// Keeps: an engine is whatever passes internal/store/kv/kvtest.
package kv
