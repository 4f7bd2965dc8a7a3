// Package dispatch matches ready turns and pending steps with connected workers.
//
// Owns: the connections of workers; leases and their timers; the matching; the output of active
// turns. All of it is in memory, except the holder of a step (the worker that has it), which is
// stored.
//
// Guarantees:
//   - A step is sent only after its holder has been stored.
//   - Ready work does not wait while a worker that can execute it is free.
//   - No worker has more work than its capacity or gets work without a credit (announced free capacity),
//     except work of the runs that it serves alone.
//   - Packs that compete for the same workers get them in rotation, regardless of how many runs each
//     has. The runs of one pack get them in rotation as well.
//
// The [Matcher] is pure and single-threaded. The shard of a namespace locks it and calls it for
// each change.
package dispatch
