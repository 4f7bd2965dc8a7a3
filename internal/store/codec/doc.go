// Package codec encodes and decodes stored values: journal entries, heads (current states of runs) and
// index rows. Their byte form is frozen. Only the store calls the package. It imports the machine's
// types and protowire.
//
// Guarantees: there is exactly one encoding of a value (the bytes of an entry are hashed into the run's
// chain). Bytes that this version would not have written are an error that wraps [ErrCorrupt], never a
// panic or a guess.
//
// The bytes follow the schema storagepb/storage.proto. Fields are in ascending order, zero values are
// omitted, and there are no maps. messages.gen.go is generated from the schema (package gen,
// docs/dev/adr/0032). Tests compare the bytes with protobuf's own code and with a golden corpus.
//
// Every body is stored once. If a record repeats a value of its input (artifact values, output,
// messages, payloads, results), the record contains a reference, and decoding replaces the reference by
// the value.
//
// Empty slices are decoded as nil. Decoded byte slices are parts of the buffer that was decoded. The
// caller must not change this buffer afterwards.
package codec
