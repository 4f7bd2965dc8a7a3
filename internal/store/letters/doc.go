// Package letters removes dead letters that are old or too many.
//
// Owns: which ones go.
// Called by: the store, which gives it a view and its way to write; nobody else.
// May import: layout, codec, the machine.
// Keeps: letters of one subscription go in the order in which they were given up.
package letters
