// Package retain is the room of what is not kept: runs that a caller deletes, and runs,
// ids and letters whose time is over.
//
// Owns: the rules of retention, and the loop that applies them.
// Called by: the edges, telemetry, the wiring, through internal/house.
// May import: the runtime's types, what lies below the way. The way imports it not.
// Keeps: a run that goes on is never deleted, nor one that somebody still waits for; what
// is to be archived is synced in its file before it is deleted.
package retain
