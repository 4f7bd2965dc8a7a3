// Package ratelimit makes calls of models and tools wait until the operator's limits have room.
//
// Owns: the table of limits in force, what of each was taken in the last minute, who has a place
// and which calls wait. [Limiter] is pure and single-threaded: the time is an argument, and it decides; [Service] locks
// it, knows the clock and follows the commits of runs.
// Keeps: in no minute are there more calls or tokens than a limit allows, and never more open at
// once, in any process that counted them: after a restart the last minute is read from the journal,
// and who is open from the runs. Of tenants that wait for the same, each is served by its weight,
// however much the others have queued; who waits first of a tenant goes first.
package ratelimit
