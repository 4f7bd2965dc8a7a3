// Package layout defines the keys and values of the store.
//
// Owns: the kinds of keys and their bytes, the rows that a journal entry makes, and functions that read
// one row and return a named error if the row is damaged. FORMAT.md in the directory of package store
// describes the same on one page. The package only computes rows and reads them.
//
// Guarantees: the rows that an entry makes depend only on the entry and on the state before it.
// Therefore a check can compute them again and compare.
package layout
