// Package backup writes the contents of a store at one moment into a stream, and restores a store from
// these streams.
//
// Owns: the form of a backup. It consists of a header, frames of rows, and an end with the digest of
// all contents.
//
// Guarantees: a backup is either complete or refused. An incremental backup names the backup before it.
// A row in a backup has the same bytes as in the store.
//
// An incremental backup contains the rows that are newer than the backup before it. It also contains all rows
// of the short-lived kinds: lists, timers, outgoing work, subscriptions, and the remains of deleted runs. A
// restore uses the rows of these kinds only from the last backup of a chain. Rows of all other kinds never
// disappear, or only together with their run or blob, so a backup does not have to record their removal.
package backup
