// Package feature is the table of how each field of the format is treated.
//
// Owns: the table, and its form in docs/reference/semantics.md. Keeps: every field of the schema has a row,
// and every row has a test.
package feature
