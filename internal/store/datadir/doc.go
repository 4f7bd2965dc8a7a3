// Package datadir inspects the files of a directory before Badger opens it: the lock, the
// tables and logs, the HEAD file with the last acknowledged group, and the progress of a
// migration. The store calls it when it opens and, for HEAD, with every group. It imports
// layout for the type of damage, and Badger's formats. Its invariant: it never changes a file
// of Badger's, and HEAD never claims an unsynced group.
package datadir
