// Package erasure erases the values of runs by destroying their keys.
//
// Owns: the order: what says that a run is erased is committed first, then the key is given to
// no reader, then what is found only by the values goes, and last the key is written over.
// Keeps: at every moment a run is erased or it is not, whichever of its steps were the last; who
// opens the store next ends what was begun. No entry is written.
package erasure
