// Package erasure erases the values of runs by destroying the keys with which they are encrypted.
//
// Owns: the order of the steps. First the row that marks the run as erased is committed. Then the key
// is no longer returned to readers. Then the rows that can be found only with the values are removed.
// Finally the key is overwritten.
//
// Guarantees: at every moment a run is either erased or not, even if an erasure was interrupted. The
// next start of the store completes it. No entry is written.
package erasure
