// Package encoded caches the encoded bytes of recently sent records, so that a record is encoded only
// once for all its readers. It also cuts data that is too long for one message into pieces.
//
// Owns: a cache of messages with a limited size.
//
// Guarantees: cached bytes never change. Bytes that only some readers may see have an entry of their
// own.
package encoded
