// Command gen writes the codec of the storage schema: one append and one read function per
// message, from the descriptors of storage.proto directly to the machine's own types (table.go
// maps them), without an intermediate value. `make generate` calls it. It imports only the
// machine and the schema from this module. Invariant: the same schema and types give the same
// output, and a field that only one side has is an error here, not lost data later.
package main
