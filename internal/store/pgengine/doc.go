// Package pgengine keeps a store in a PostgreSQL database. It is the engine for operators that run
// PostgreSQL already and want no data directory.
//
// It owns what the store needs from an engine besides pairs: whether another process has the store,
// whether there is free space, what to answer while the database is unavailable, and the keys of
// runs.
//
// Invariant: while the database is unavailable, the process continues, loses nothing, and refuses
// new work with the reason [Away]. If an acknowledged group is missing in the database, the store
// fails.
//
// Concurrency: a [Database] is safe for concurrent use.
package pgengine
