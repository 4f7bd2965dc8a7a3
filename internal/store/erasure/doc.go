// Package erasure erases the values of runs by destroying their keys.
//
// Owns: the order of the steps: commit the row that marks the run as erased, stop handing out
// the key, remove the rows that are found only by the values, and last overwrite the key.
// Keeps: at every moment a run is either erased or not, wherever an erasure was interrupted.
// The next start of the store completes it. No entry is written.
package erasure
