// Package encoded keeps the records that were sent last as bytes, so that a record is encoded
// once however many read it; and cuts what is too long for one message into pieces.
//
// Owns: a bounded memory of messages. Called by: internal/grpcapi and its rooms. May import: the cache.
// Keeps: bytes that are kept are changed by nobody, and what is told to some readers only
// has a place of its own.
package encoded
