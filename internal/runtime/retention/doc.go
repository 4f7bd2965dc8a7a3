// Package retention deletes runs that a caller deletes or that a rule of the operator selects, and
// erases the values of runs that a caller erases.
//
// Owns: the checks of the right to delete or erase a run, the runs that the rules select, and the
// archive files that are written before a deletion.
//
// Guarantees: an active run, or a run with an active parent, is never deleted or erased. If a rule
// requires an archive, a run is deleted only when its archive file is complete and on disk. An
// interrupted round can simply be repeated, because the rules depend only on stored data.
package retention
