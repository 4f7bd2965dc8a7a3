// Package keyring keeps the keys of erasable runs where one of them can be destroyed: in the file
// RUNKEYS of a directory, or in another [Medium] of what keeps the store.
//
// Owns: the file, whatever it lies on: a header, and fixed slots that are written over in their
// place and never used for a second run.
// Keeps: a key is synced before any caller gets it; a slot that was destroyed never has a key
// again; what is not as it was written is damage, never another key.
package keyring
