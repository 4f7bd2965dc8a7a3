// Package layout defines how the store's data lies in keys and values.
//
// It owns the kinds of keys and the bytes of each, the rows that an entry makes, and the reading of
// one row with a named error when the row is damaged. FORMAT.md beside the store describes the same
// on one page. The package writes nothing.
//
// Invariant: the rows that an entry makes are a function of the entry and of the state before it
// alone. So a check can make them again and compare.
package layout
