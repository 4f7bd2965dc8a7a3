// Package backup writes what a store holds at one moment into a stream, and puts such streams
// together again.
//
// Owns: the form of a backup: a header, frames of rows, an end with the digest of all.
// Keeps: a backup is whole or refused; what follows on another one says on which. A row is what it
// was in the store, byte for byte.
//
// A backup that follows on another has the rows that are newer than that, and all rows of the kinds
// that come and go (lists, timers, outgoing work, subscriptions, what is kept of deleted runs): of
// those only the last backup of a chain counts. Rows of all other kinds go with their run, or with
// their blob, and so are known to be gone without a record of it.
package backup
