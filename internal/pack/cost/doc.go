// Package cost bounds what the schemas and patterns of a pack may cost the process that checks a payload by
// them.
//
// Owns: how the work of a schema, and of a regular expression, is counted.
// Keeps: a count is never below the work that the library does.
package cost
