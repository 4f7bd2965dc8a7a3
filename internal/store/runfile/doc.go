// Package runfile reads and writes the frames of an export file that contains one run.
//
// A file consists of the magic bytes, a version in two bytes, and frames. A frame consists of a kind
// byte, a length in four bytes (big-endian), and this number of bytes. The first frame is the header.
// Then come the pack, the entries of the journal as they are stored, and the blobs, each followed by
// its pieces. The last frame is the seal, the SHA-256 of everything before it.
//
// The package checks the frames and the seal. Other packages check the meaning of the bytes and whether
// they are correct.
package runfile
