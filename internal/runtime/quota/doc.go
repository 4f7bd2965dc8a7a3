// Package quota says how much of the sidecar one namespace and one principal may have: calls and
// starts in a time, runs that have not ended, streams, and of what others count how many.
//
// Owns: the table of the bounds in force, the rates, and the counts of open runs and streams.
// Keeps: a bound that no caller passes, however many ask at once; runs that are open are counted
// from the store, so that a restart changes no count. A nil [Limits] bounds nothing.
package quota
