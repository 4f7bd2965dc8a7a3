// Package badgerengine keeps a store in one directory: the embedded engine, with all work on
// its files.
//
// It owns the order in which a directory is locked, inspected, opened and closed, the HEAD file,
// the free disk space, and the check of all checksums. Its invariant: Badger opens a directory only
// while it is locked, and only after the proof that everything acknowledged exists.
package badgerengine
