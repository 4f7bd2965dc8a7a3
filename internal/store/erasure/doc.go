// Package erasure erases the values of runs by destroying their keys.
//
// It owns the order of the steps: commit the row that marks the run as erased, stop handing out the
// key, remove the rows that can be found only with the values, and finally overwrite the key. Its
// invariant: at every moment a run is either erased or not, even if an erasure was interrupted. The
// next start of the store completes it. No entry is written.
package erasure
