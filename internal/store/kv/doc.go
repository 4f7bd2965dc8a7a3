// Package kv is the contract between the store and the engine that keeps its pairs of keys and
// values: what is read, how a group is stored, what a commit that goes wrong means.
//
// Owns: the words of the contract, and the rule about reads that fail: a [View] whose read failed
// answers nothing more, so that no caller takes a scan that broke off for one that ended.
// Keeps: an engine is whatever passes internal/store/kv/kvtest.
package kv
