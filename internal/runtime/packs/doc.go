// Package packs validates, registers, reads and lists packs.
//
// Owns: the rules for registering a document. The registered packs are in the store.
//
// Guarantees: a digest always identifies the same bytes. An existing name is changed to refer to other
// bytes only on request. A registration with an unknown outcome ends the process, like any commit.
package packs
