// Package query answers questions about runs: the state of a run now or at a seq, its origin, and a
// past turn. It also lists and counts runs, tasks and held calls, and returns the record with which a
// request was in conflict.
//
// Owns: no data. Each answer is read from the store, from the history of the run or from its pack.
//
// Guarantees: a query changes no state and assigns no turn. A caller gets only data that it may read.
package query
