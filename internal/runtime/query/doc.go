// Package query is the room of what is asked about runs: one run now or at a seq, how it began,
// lists and counts of runs, a turn as it was, tasks, the record that won a race.
//
// Owns: nothing; each answer is a read of the store, of the past or of a program.
// Keeps: it changes nothing and takes no turn; nothing is told to who may not read it.
package query
