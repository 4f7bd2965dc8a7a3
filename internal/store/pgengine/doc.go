// Package pgengine keeps a store in a PostgreSQL database. It is the engine for operators that run
// PostgreSQL already and want no data directory.
//
// It owns what the store asks of an engine besides pairs: whether another process has the store,
// whether there is free space, what to answer while the database is away, and the keys of runs.
//
// Keeps: while the database is away, the process goes on and loses nothing, and refuses new work
// with the reason [Away]. If an acknowledged group is gone from the database, the store fails.
//
// Concurrency: a [Database] is safe for concurrent use.
package pgengine
