// Package archive writes the portable file of a run: its pack, its entries as they are stored, the
// blobs that it refers to.
//
// Owns: nothing; the form of the file is package runfile's.
// Keeps: no read of the store stays open for longer than a page takes, however slow the reader of
// the file is.
package archive
