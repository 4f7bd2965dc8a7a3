// Package encoded keeps the records that were sent last as bytes, so that a record is encoded once
// however many read it; and cuts what is too long for one message into pieces.
//
// Owns: a bounded memory of messages.
// Keeps: no code changes bytes that are kept, and what only some readers may see has a
// place of its own.
package encoded
