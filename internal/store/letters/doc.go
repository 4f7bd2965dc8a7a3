// Package letters removes dead letters that are too old or too many.
//
// It owns the choice of the letters to remove. The store gives it a view and a function that
// writes.
//
// Keeps: letters of one subscription are removed in the order in which their deliveries were given
// up. A [Trimmer] is safe for concurrent use.
package letters
