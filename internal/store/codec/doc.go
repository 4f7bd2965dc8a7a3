// Package codec is the frozen byte form of what the store keeps: journal
// entries, heads and index rows.
//
// The bytes follow the schema storagepb/storage.proto. They are written and
// read by hand, because they are made on the way of every transition; tests
// hold them against the generated code and against a golden corpus. An entry's
// bytes are hashed into the run's chain, so a value is encoded in exactly one
// way: fields ascending, zero values left out, no maps.
//
// Every body is stored once. Where a record repeats what its input brought
// (artifact values, output, messages, payloads, results), the record holds a
// reference, and decoding fills it in again.
//
// Empty slices read back as nil. Decoded byte slices are parts of the buffer
// that was decoded; the caller gives up the buffer and nobody writes to it.
package codec
