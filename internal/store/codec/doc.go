// Package codec owns the frozen byte form of what the store keeps: journal entries,
// heads and index rows. Only the store calls it; it imports the machine's types and
// protowire. Its invariant: a value is encoded in exactly one way (an entry's bytes are
// hashed into the run's chain), and what this version would not have written is an
// error that wraps [ErrCorrupt], never a panic or a guess.
//
// The bytes follow the schema storagepb/storage.proto: fields ascending, zero values
// left out, no maps. messages.gen.go is generated from it (package gen, docs/dev/adr/0032);
// tests hold the bytes against protobuf's own code and against a golden corpus.
//
// Every body is stored once. Where a record repeats what its input brought
// (artifact values, output, messages, payloads, results), the record holds a
// reference, and decoding fills it in again.
//
// Empty slices read back as nil. Decoded byte slices are parts of the buffer
// that was decoded; the caller gives up the buffer and nobody writes to it.
package codec
