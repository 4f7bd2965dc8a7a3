// Package dispatch is the room of who executes: connected workers, what they hold, and which
// of them gets which ready turn or step.
//
// Owns: connections, leases and their alarms, the matching, the output of turns that are
// under way. All of it is memory, but for one row: to whom a step goes.
// Called by: the edge of workers and the wiring; the way tells it of each commit in the
// run's own turn ([Room.Follow]) and asks it about leases (runtime.Holder).
// May import: the way's types, what lies below the way, policy, pack.
// Keeps: a step is sent only after its holder was stored; no work is left while a worker
// that serves it is free; no worker holds more than its capacity or is given work without
// a credit; packs that contend for the same workers are served in turn, whatever their
// number of runs, and so are the runs of one pack. The [Matcher] is pure and
// single-threaded: a namespace's shard locks, and tells it what happens.
package dispatch
