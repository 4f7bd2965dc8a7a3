// Package badgerengine keeps a store in one directory, with Badger as the embedded engine. It
// implements the interfaces of package kv with Badger (db.go), and does all work on the files of the
// directory (directory.go).
//
// Owns: Badger's options; its managed transactions, whose timestamps are the numbers of commits
// (groups); Badger's log, which contains failures that no call returns; the order in which a directory
// is locked, inspected, opened and closed; the HEAD file, which records the acknowledged commits; the
// check of free disk space; the check of all checksums.
//
// Guarantees: Badger opens a directory only while it is locked, and only after it was checked that
// everything acknowledged exists. A panic of Badger at opening is an error. A group counts as stored
// only when its log is synced and Badger has logged no failed sync.
package badgerengine
