// Package badgerengine keeps a store in one directory: the engine that Pawl embeds, with all that
// is about its files.
//
// Owns: the order in which a directory is locked, looked through, opened and closed; HEAD; the
// room on its disk; the look at all checksums.
// Called by: the store, as its engine, and for a migration or a compaction as what it is.
// May import: badgerkv, engine, host, inspect, keyring, kv, layout, space.
// Keeps: Badger has a directory only after everything that was acknowledged is proven to be
// there, and while the directory is locked.
package badgerengine
