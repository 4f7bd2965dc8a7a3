// Package pgengine keeps a store in a PostgreSQL database: the engine for whoever runs one
// already, and has no directory to look after.
//
// Owns: what is asked of an engine besides pairs, as a database answers it: who else has the
// store, whether there is room, what to say while it is away, the keys of runs.
// Called by: the store, as its engine. May import: engine, fenced, host, inspect, keyring, kv,
// layout, pgkv.
// Keeps: while the database is away nothing dies and nothing is lost, and new work hears so;
// what was acknowledged and is gone fails the store.
package pgengine
