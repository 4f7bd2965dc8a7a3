// Package keyring keeps the encryption keys of erasable runs in a place where a single key can be
// destroyed. This is the file RUNKEYS of a directory, or another [Medium] of the engine that keeps the
// store.
//
// Owns: the layout of that file on every medium, which is a header followed by fixed slots. A slot is
// overwritten in place and never used for a second run after values of a first run were encrypted with its key.
//
// Guarantees: the ring syncs a key before it returns the key. A destroyed slot never has a key again.
// If bytes differ from what was written, they are treated as damage, never as another key.
//
// Concurrency: a [Ring] is safe for concurrent use. It makes one write at a time to its Medium.
package keyring
