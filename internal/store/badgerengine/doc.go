// Package badgerengine keeps a store in one directory: the engine that Pawl embeds, with all that
// is about its files.
//
// Owns: the order in which a directory is locked, looked through, opened and closed; HEAD; the room
// on its disk; the look at all checksums.
// Keeps: Badger has a directory only after everything that was acknowledged is proven to be there,
// and while the directory is locked.
package badgerengine
