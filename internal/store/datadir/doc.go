// Package datadir works on the files of a data directory outside Badger. Before Badger opens the
// directory, it inspects the lock, the tables and logs, the HEAD file (which records the last
// acknowledged commit), and the progress of a migration. While a store is open, it writes the HEAD file
// with every commit and watches the free disk space. It also exchanges a directory for its compacted
// copy. The package imports layout for the type of damage, and Badger's formats.
//
// Guarantees: the package changes no data in Badger's files. It removes only files of Badger that are empty or
// that Badger creates again, and the incomplete end of the file of data keys. HEAD never records an unsynced
// commit. No work begins if the file system could have no block left for it. During a compaction, the
// directory's name refers to a complete store at every moment. Of directories, only remains of a compaction, a
// migration or a move are removed, and only if no process has them open.
package datadir
