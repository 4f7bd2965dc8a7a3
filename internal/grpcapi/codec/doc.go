// Package codec receives messages so that a message that cannot be decoded becomes a typed error of the
// caller.
//
// Owns: how bytes become requests, for unary calls and streams.
// Keeps: bytes that are no message cause INVALID_ARGUMENT, never an error of the server.
package codec
