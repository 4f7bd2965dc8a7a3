// Package badgerkv is the embedded engine. It implements the interfaces of package kv with Badger.
//
// Owns: Badger's options; its managed transactions, whose timestamps are the numbers of groups; the
// conversion of a panic at opening into an error.
//
// Guarantees: a group counts as stored only when its log is synced and Badger has logged no failed
// sync.
package badgerkv
