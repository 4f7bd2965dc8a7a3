// Package schedule starts runs at the times of the operator's schedules.
//
// Owns: the meaning of a cron expression in a time zone; the decision which instants are fired and
// which are missed; the progress of each schedule.
//
// Guarantees: an instant never starts a second run. The progress of a schedule is stored after the run
// is started. The id of the start request is derived from the schedule and the instant. So after a
// crash between the two, the same StartRun is repeated, and the store recognizes it as a duplicate.
package schedule
