// Package feature is the table of what becomes of every field of the format.
//
// Owns: the table, and its form in docs/reference/semantics.md.
// Keeps: every field of the schema has a row, and every row a test of what it says.
package feature
