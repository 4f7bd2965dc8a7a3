// Package feature contains the table of how this product treats each field of the format.
//
// Owns: the table, and its form in docs/reference/semantics.md.
//
// Guarantees: every field of the schema has a row, and every row has a test.
package feature
