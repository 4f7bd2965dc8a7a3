// Package retention is the room of what is not kept: runs that a caller deletes, or that a
// rule of the operator's chooses, and the values of runs that a caller erases.
//
// Owns: who may delete or erase which run, which runs the rules choose, and the files that
// are written of those before.
// Called by: the edges, through internal/services; the wiring runs its loop.
// May import: the runtime's types, what lies below the way. The way imports it not.
// Keeps: a run that goes on is never deleted or erased, nor one whose parent goes on. A rule that
// archives deletes a run only when its file is on disk, whole and with its name. Whatever is
// broken off is begun again: the rules have no memory but what is stored.
package retention
