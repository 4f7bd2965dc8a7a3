// Package dispatch decides which worker gets which ready turn or step. It is
// pure and single-threaded: its caller locks, and tells it what happens.
//
// Three promises hold after every call. No work is left while a worker that
// serves it is free. No worker holds more than its capacity or is given work
// without a credit. Packs that contend for the same workers are served in turn,
// whatever their number of runs, and so are the runs of one pack.
package dispatch
