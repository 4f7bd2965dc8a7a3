// Package packs validates, registers, reads and lists packs.
//
// Owns: the rules for registering a document. The registered packs are in the store.
//
// Guarantees: a digest always identifies the same bytes. An existing id@version is changed to refer to
// other bytes only on request. If the outcome of a registration is unknown, the process ends, as after
// a commit with an unknown outcome.
package packs
