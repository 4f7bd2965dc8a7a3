// Package cost bounds the work of checking a payload by the schemas and patterns of a pack.
//
// Owns: how the work of a schema, and of a regular expression, is counted.
//
// Guarantees: a count is never below the work that the library does.
package cost
