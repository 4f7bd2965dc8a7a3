// Package badgerkv is the engine that Pawl embeds: the contract of kv over Badger.
//
// Owns: Badger's options, its managed transactions, whose timestamps are the numbers of groups, and
// that a panic of its opening is an error.
// Keeps: a group is stored once its log is synced and Badger has logged no sync that failed.
package badgerkv
