// Package codec receives messages. If a message cannot be decoded, the caller gets a typed error.
//
// Owns: the conversion of bytes to requests, for unary calls and streams.
//
// Guarantees: bytes that are not a message cause INVALID_ARGUMENT, never an error of the server.
package codec
