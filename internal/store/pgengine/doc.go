// Package pgengine keeps a store in a PostgreSQL database. It is the engine for operators that already
// run PostgreSQL and do not want a data directory.
//
// Owns: what the store needs from an engine in addition to key-value pairs: the check whether another
// process has the store, the check for free space, the errors while the database is unavailable, and
// the keys of erasable runs.
//
// Guarantees: while the database is unavailable, the process continues, loses nothing, and refuses new
// work with the reason [ReasonDatabaseAway]. If an acknowledged group is missing in the database, the store fails.
//
// Concurrency: a [Database] is safe for concurrent use.
package pgengine
