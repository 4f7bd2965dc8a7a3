// Package runfile is the frame of a portable file that holds one run.
//
// A file is the magic word, a version in two bytes, and frames: a kind byte, a
// length in four bytes, big-endian, and as many bytes. First comes the header,
// then the pack, then the journal's entries as they are stored, then blobs, each
// with its pieces behind it, and last the seal: the SHA-256 of everything before
// it. What the bytes mean and whether they are true is proven elsewhere.
package runfile
