// Package badgerengine keeps a store in one directory: the embedded engine, with all work on
// its files.
//
// Owns: the order in which a directory is locked, inspected, opened and closed; HEAD; the free
// disk space; the check of all checksums. Keeps: Badger opens a directory only while it is
// locked, and only after the proof that everything acknowledged is there.
package badgerengine
