// Package badgerengine keeps a store in one directory, with Badger as the embedded engine. It does all
// work on the files of the directory.
//
// Owns: the order in which a directory is locked, inspected, opened and closed; the HEAD file; the
// check of free disk space; the check of all checksums.
//
// Guarantees: Badger opens a directory only while it is locked, and only after it was checked that
// everything acknowledged exists.
package badgerengine
