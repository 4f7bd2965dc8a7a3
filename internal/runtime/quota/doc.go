// Package quota says how much of the sidecar one namespace and one principal may
// have: calls and starts in a time, runs that have not ended, streams, and of what others
// count how many.
//
// Owns: the table of the bounds in force, the rates, and the counts of open runs and streams.
// Called by: the way at a run's beginning and end, the rooms that count workers, packs,
// webhooks and consumers, and the edge for calls and streams.
// May import: the machine's refusals and the bounded cache.
// Keeps: a bound that is passed by nobody, however many ask at once; runs that are open
// are counted from the store, so that a restart changes no count. A nil [Book] bounds nothing.
package quota
