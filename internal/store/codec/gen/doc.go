// Command gen generates the codec of the storage schema. For each message it generates one append and
// one read function, which convert directly between the bytes and the machine's own types, without an
// intermediate value. It reads the descriptors of storage.proto, and table.go maps messages to types.
// `make generate` runs it. From this module it imports only the machine and the schema.
//
// Guarantees: the same schema and types give the same output. A field that only the schema or only the
// type has is an error here, and cannot cause a loss of data later.
package main
