// Package codec owns the frozen byte form of stored values: journal entries, heads and index
// rows. Only the store calls it; it imports the machine's types and protowire. Its invariant: a
// value is encoded in exactly one way (an entry's bytes are hashed into the run's chain), and
// bytes that this version would not have written are an error that wraps [ErrCorrupt], never a
// panic or a guess.
//
// The bytes follow the schema storagepb/storage.proto: fields ascending, zero values left out,
// no maps. messages.gen.go is generated from it (package gen, docs/dev/adr/0032); tests compare
// the bytes with protobuf's own code and with a golden corpus.
//
// Every body is stored once. Where a record repeats a value of its input (artifact values,
// output, messages, payloads, results), the record holds a reference, and decoding fills it in
// again.
//
// Empty slices read back as nil. Decoded byte slices are parts of the buffer that was decoded.
// The caller must not change that buffer afterwards.
package codec
