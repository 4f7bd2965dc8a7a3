// Package backup writes the contents of a store at one moment into a stream, and restores a
// store from these streams.
//
// Owns: the form of a backup: a header, frames of rows, and an end with the digest of
// everything. Keeps: a backup is complete or refused. An incremental backup names the backup
// before it. A row in a backup has the same bytes as in the store.
//
// An incremental backup has the rows that are newer than the backup before it, and all rows of
// the short-lived kinds (lists, timers, outgoing work, subscriptions, the remains of deleted
// runs): of those kinds only the last backup of a chain counts. Rows of all other kinds
// disappear together with their run or blob, so that their removal needs no record of its own.
package backup
