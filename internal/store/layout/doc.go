// Package layout defines the keys and values in which the store keeps its data.
//
// It owns the kinds of keys and the bytes of each, the rows that an entry makes, and the
// reading of one row with a named error when the row is damaged. FORMAT.md beside the store
// describes the same on one page. The package only computes rows and reads them.
//
// Invariant: the rows that an entry makes depend only on the entry and on the state before it. A
// check can therefore compute them again and compare.
package layout
