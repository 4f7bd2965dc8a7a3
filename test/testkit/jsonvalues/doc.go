// Package jsonvalues is the one table of JSON values with which every way out of a call is tried:
// what the condition saw, what the digest covers, what is stored and what leaves is one value, or
// it is refused by name where it came.
//
// Owns: the table.
package jsonvalues
