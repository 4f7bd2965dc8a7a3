// Package schedule is the room of runs that nobody starts but the time: the operator's
// schedules.
//
// Owns: what an expression of cron means in a time zone, which instants are fired and which
// are given up, and how far each schedule is.
// Called by: the edges, which list them, through internal/services; the wiring runs its loop and
// replaces the table.
// May import: the runtime's types and what is below the way. The way imports it not.
// Keeps: a run that an instant began is never begun again. How far a schedule is, is stored
// after the run is, whose id is made of the schedule and the instant: a crash between the two
// repeats a StartRun that the store knows.
package schedule
