// Package query answers questions about runs: the state of a run now or at a seq, its origin, lists and
// counts of runs, a past turn, tasks, and the record that won a conflict.
//
// Owns: no data. Each answer is read from the store, from the history of the run or from a program.
//
// Guarantees: a query changes no state and assigns no turn. A caller gets only data that it may read.
package query
