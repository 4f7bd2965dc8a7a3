// Package letters removes dead letters that are old or too many.
//
// Owns: which ones go.
// Keeps: letters of one subscription go in the order in which they were given up.
package letters
