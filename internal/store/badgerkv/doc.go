// Package badgerkv is the embedded engine: it implements the contract of package kv with Badger.
//
// It owns Badger's options, its managed transactions, whose timestamps are the numbers of groups,
// and the conversion of a panic at opening into an error. Its invariant: a group counts as stored
// once its log is synced and Badger has logged no failed sync.
package badgerkv
