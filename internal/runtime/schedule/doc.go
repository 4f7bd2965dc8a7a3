// Package schedule starts runs at times that the operator declares: the operator's schedules.
//
// Owns: what an expression of cron means in a time zone, which instants are fired and which are
// missed, and how far each schedule is.
// Keeps: a run that an instant began is never begun again. How far a schedule is, is stored after
// the run is, whose id is made of the schedule and the instant: a crash between the two repeats a
// StartRun that the store knows.
package schedule
