// Package badgerkv is the embedded engine: the contract of kv over Badger.
//
// Owns: Badger's options; its managed transactions, whose timestamps are the numbers of groups;
// the conversion of a panic at opening into an error. Keeps: a group counts as stored once its
// log is synced and Badger has logged no failed sync.
package badgerkv
