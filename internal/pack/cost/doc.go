// Package cost bounds the work of checking a payload with the schemas and patterns of a pack.
//
// Owns: the rules for counting the work of a schema and of a regular expression.
//
// Guarantees: a count is never lower than the work that the library does.
package cost
