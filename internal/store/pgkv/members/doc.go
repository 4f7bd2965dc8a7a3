// Package members keeps in a database which sidecars share it, and tells who has its store.
//
// Owns: the rows of nodes; the renewal of the lease of the store that this process has. Taking
// and giving back the store is pgkv's. Called by: app, for internal/cluster/node.
// May import: pgkv, assure; pgx.
// Keeps: one statement says that a node lives, renews the lease and reads what there is, by
// the database's clock alone. A lease is renewed only under the epoch that the owner in this
// process is sure of, so that a store which nobody serves is free when its lease has ended. No
// error has a password. Nothing depends on what a session was told before.
package members
