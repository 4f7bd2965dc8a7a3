// Package move holds what a store needs to move from one engine to another.
//
// It owns the sum of all pairs, which compares two engines, and the place where a directory is made
// before it gets its final name.
//
// Keeps: a directory gets its name only when it is complete. If a move breaks off at any moment, no
// directory that holds only a part can be opened.
package move
