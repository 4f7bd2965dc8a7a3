// Package cost bounds what the schemas and patterns of a pack may cost whoever checks a
// payload by them.
//
// Owns: how the work of a schema, and of a regular expression, is counted.
// Called by: pack, when it reads a pack and when it checks a value.
// May import: source.
// Keeps: a count is never below the work that the library does.
package cost
