// Command gen owns how the codec of the storage schema is written: one append and one
// read function per message, from the descriptors of storage.proto straight to the
// machine's own types (table.go says which), without a value in between. Called by
// `make generate`; it imports the machine, the schema and nothing else of ours.
// Invariant: same schema and types, same output, and a field that only one side
// knows is an error here, not a byte that is lost later.
package main
