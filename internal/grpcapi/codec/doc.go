// Package codec receives messages so that one that cannot be decoded is the caller's typed error.
//
// Owns: how bytes become requests, for unary calls and streams.
// Keeps: bytes that are no message are INVALID_ARGUMENT, never the server's fault.
package codec
