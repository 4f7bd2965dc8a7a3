// Package dispatch is the room of who executes: connected workers, what they hold, and which of
// them gets which ready turn or step.
//
// Owns: connections, leases and their alarms, the matching, the output of turns that are under way.
// All of it is memory, but for one row: which worker a step goes to.
// Keeps: a step is sent only after its holder was stored; no work is left while a worker that
// serves it is free; no worker holds more than its capacity or is given work without a credit;
// packs that contend for the same workers are served in turn, independent of their number of runs, and so
// are the runs of one pack. The [Matcher] is pure and single-threaded: a namespace's shard locks,
// and tells it what happens.
package dispatch
