// Package runfile reads and writes the frames of a portable file that holds one run.
//
// A file is the magic bytes, a version in two bytes, and frames. A frame is a kind byte, a length
// in four bytes, big-endian, and as many bytes. The header comes first, then the pack, then the
// journal's entries as they are stored, then the blobs, each followed by its pieces. The seal comes
// last: the SHA-256 of everything before it.
//
// The package checks the frames and the seal. Other packages check what the bytes mean and whether
// they are true.
package runfile
