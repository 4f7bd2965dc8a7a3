// Package keyring keeps the keys of erasable runs in a place where one key can be destroyed: the
// file RUNKEYS of a directory, or another [Medium] of the engine that keeps the store.
//
// It owns the layout of that file on every medium: a header, then fixed slots. A slot is
// overwritten in place and never used for a second run.
//
// Invariants: the ring syncs a key before it gives the key out. A destroyed slot never has a key again.
// Bytes that differ from what was written are damage, never another key.
//
// Concurrency: a [Ring] is safe for concurrent use. It writes its Medium with one call at a time.
package keyring
