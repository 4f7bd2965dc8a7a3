// Package retention is the room of what is not kept: runs that a caller deletes, or that a rule of
// the operator's chooses, and the values of runs that a caller erases.
//
// Owns: who may delete or erase which run, which runs the rules choose, and the files that are
// written of those before.
// Keeps: a run that goes on is never deleted or erased, nor one whose parent goes on. A rule that
// archives deletes a run only when its file is on disk, whole and with its name. What is broken
// off is begun again: the rules have no memory but what is stored.
package retention
