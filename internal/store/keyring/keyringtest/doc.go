// Package keyringtest holds every medium of keys of runs to what a ring needs of one.
//
// Owns: the suite, and a medium in memory.
// Keeps: what the suite asks of one medium it asks of all.
package keyringtest
