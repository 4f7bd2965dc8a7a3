// Package retain is the room of what is not kept: runs that a caller deletes.
//
// Owns: nothing; who may delete which run.
// Called by: the edges, through internal/house.
// May import: the runtime's types, what lies below the way. The way imports it not.
// Keeps: a run that goes on is never deleted, nor one whose parent goes on.
package retain
