// Package datadir inspects the files of a directory before Badger opens it: the lock, the tables and
// logs, the HEAD file with the last acknowledged group, and the progress of a migration. The store
// calls it when it opens, and writes the HEAD file with every group. The package imports layout for the
// type of damage, and Badger's formats.
//
// Guarantees: the package never changes a file of Badger, and HEAD never records an unsynced group.
package datadir
