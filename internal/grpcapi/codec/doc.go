// Package codec converts between messages and their bytes. It receives requests, forwards encoded
// messages unchanged, caches the bytes of recently sent records, so that a record is encoded only once for
// all its readers, and cuts data that is too long for one message into pieces.
//
// Owns: the conversion of bytes to requests, for unary calls and streams; a cache of encoded records with
// a limited size.
//
// Guarantees: bytes that are not a message cause INVALID_ARGUMENT, never an error of the server. Cached
// bytes never change. Bytes that only some readers may see have an entry of their own.
package codec
