// Package feature contains a table of the fields of the format. The table describes how this product
// treats each field.
//
// Owns: the table, and its form in docs/reference/semantics.md.
//
// Guarantees: every field of the schema has a row, and every row has a test.
package feature
