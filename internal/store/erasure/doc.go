// Package erasure erases the values of runs by destroying their keys.
//
// Owns: the order: what says that a run is erased is committed first, then the key is given
// to nobody, then what is found only by the values goes, and last the key is written over.
// Called by: the store, which gives it its reads, its one way to write and its keys. May
// import: layout, codec, seal, the machine and its rules.
// Keeps: at every moment a run is erased or it is not, whichever of its steps were the last;
// who opens the store next ends what was begun. No entry is written.
package erasure
