// Package move has what a store takes along that moves from one engine to another.
//
// Owns: the sum of all pairs, by which two engines are compared; the place where a directory is
// made that gets its name only when it is whole.
// Keeps: broken off at any moment there is no directory that opens and has only a part.
package move
