// Package keyringtest holds every medium of keys of runs to what a ring needs of one.
//
// Owns: the suite, and a medium in memory. Called by: tests of media. May import: keyring, seal.
// Keeps: what the suite asks of one medium it asks of all.
package keyringtest
