// Package pgengine keeps a store in a PostgreSQL database, for operators that run one already.
//
// It owns what an engine does besides storing pairs, as a database does it: which process owns the
// store, whether there is room, what a caller gets while the database is away, the keys of runs.
// Invariants: while the database is away no process exits and nothing is lost, and new work is
// refused with a typed error; an acknowledged commit that is gone fails the store.
package pgengine
