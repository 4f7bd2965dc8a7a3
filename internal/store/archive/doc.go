// Package archive writes the portable file of a run: its pack, its stored entries, and the
// blobs that it refers to.
//
// Owns: the order of the parts. Package runfile owns the form of the file. Keeps: a read of the
// store stays open no longer than one page takes, even with a slow reader.
package archive
